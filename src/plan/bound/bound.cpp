#include "plan/bound/bound.h"

#include <algorithm>
#include <cmath>

namespace retrace::plan {
namespace {

constexpr size_t kMostTimes = 48;
constexpr int kBisections = 16;
constexpr int kPatience = 4;           // steps without a gain before they become shorter
constexpr double kProminent = 0.1;     // of the most that could be kept at once: less is no rise of its own
constexpr double kCloseEnough = 5e-4;  // of the step: nobody measures less

// Turns the direction of the last step towards a subgradient, but never back against it: that stops zigzags across a
// ridge. Returns the square of its new length.
double turn(std::vector<double>& direction, const std::vector<double>& subgradient) {
  double along = 0, norm = 0;
  for (size_t i = 0; i < direction.size(); ++i) along += direction[i] * subgradient[i];
  for (const double d : direction) norm += d * d;
  const double deflection = along < 0 && norm > 0 ? -along / norm : 0;
  norm = 0;
  for (size_t i = 0; i < direction.size(); ++i) {
    direction[i] = subgradient[i] + deflection * direction[i];
    norm += direction[i] * direction[i];
  }
  return norm;
}

}  // namespace

Bound::Bound(const Graph& graph, const Lifetimes& lifetimes, MinCut& cut)
    : graph_(graph),
      lifetimes_(lifetimes),
      cut_(cut),
      prices_(graph, lifetimes),
      rises_(find_rises()),
      best_prices_(lifetimes.events()) {}

void Bound::reset() {
  std::fill(best_prices_.begin(), best_prices_.end(), 0.0);
  best_ = 0;
}

// Several backwards in one step (accumulated gradients, a GAN) are several rises, each with constraints of its own.
std::vector<Bound::Rise> Bound::find_rises() const {
  const auto events = static_cast<int32_t>(lifetimes_.events());
  if (events == 0) return {};
  Choices all(graph_.values.size());
  for (size_t v = 0; v < all.size(); ++v) {
    if (lifetimes_.asked(static_cast<ValueId>(v))) all[v] = Choice::keep();
  }
  std::vector<int64_t> kept = live(all);
  for (int32_t t = 0; t < events; ++t) kept[at(t)] -= lifetimes_.base()[at(t)];
  const double prominent = kProminent * static_cast<double>(*std::max_element(kept.begin(), kept.end()));
  const auto differ = [&](int32_t high, int32_t low) {
    return static_cast<double>(kept[at(high)] - kept[at(low)]) > prominent;
  };
  std::vector<Rise> rises;
  int32_t top = 0, bottom = 0;
  bool rising = true;
  for (int32_t t = 1; t < events; ++t) {
    if (rising) {
      if (kept[at(t)] > kept[at(top)]) top = t;
      if (!differ(top, t)) continue;
      rises.push_back({rises.empty() ? 0 : rises.back().end, top, events});
      bottom = t;
    } else {
      if (kept[at(t)] <= kept[at(bottom)]) bottom = t;
      if (!differ(t, bottom)) continue;
      rises.back().end = bottom;
      top = t;
    }
    rising = !rising;
  }
  if (rises.size() <= 1) return {{0, std::clamp(lifetimes_.first_unpack(), 0, events - 1), events}};
  return rises;
}

// Kept values fill up until backward begins and drain afterwards, so an event with less headroom than every other one
// that is nearer to the turn is a constraint of its own. Of those, the tightest in each stretch of the step.
void Bound::choose_times(int64_t budget_bytes) {
  const auto events = static_cast<int32_t>(lifetimes_.events());
  const auto base = [&](int32_t t) { return lifetimes_.base()[at(t)]; };
  std::vector<int32_t> records;
  for (const Rise& rise : rises_) {
    int64_t most = -1;
    for (int32_t t = rise.turn; t < rise.end; ++t) {
      if (base(t) <= most) continue;
      most = base(t);
      records.push_back(t);
    }
    most = -1;
    for (int32_t t = rise.turn - 1; t >= rise.begin; --t) {
      if (base(t) <= most) continue;
      most = base(t);
      records.push_back(t);
    }
  }
  std::sort(records.begin(), records.end());
  // Never drop a time that has a price already: the prices of a neighbouring budget are the best start there is.
  std::vector<int32_t> chosen;
  const size_t stretch = std::max<size_t>(1, (records.size() + kMostTimes - 1) / kMostTimes);
  for (size_t i = 0; i < records.size(); i += stretch) {
    const size_t end = std::min(records.size(), i + stretch);
    chosen.push_back(*std::max_element(records.begin() + static_cast<std::ptrdiff_t>(i),
                                       records.begin() + static_cast<std::ptrdiff_t>(end),
                                       [&](int32_t a, int32_t b) { return base(a) < base(b); }));
  }
  for (int32_t t = 0; t < events; ++t) {
    if (best_prices_[at(t)] > 0) chosen.push_back(t);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  times_ = std::move(chosen);
  headroom_.clear();
  for (const int32_t t : times_) headroom_.push_back(static_cast<double>(budget_bytes - base(t)));
}

Choices Bound::choices(const std::vector<double>& per_event) {
  prices_.set(per_event);
  cut_.solve(prices_.keep());
  Choices result(graph_.values.size());
  for (const ValueId v : cut_.kept()) result[at(v)] = Choice::hold(prices_.best_way(v));
  return result;
}

std::vector<int64_t> Bound::live(const Choices& choices) const {
  std::vector<int64_t> change(lifetimes_.events() + 1);
  for (size_t v = 0; v < choices.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const Choice choice = possible(choices[v], graph_.values[v], lifetimes_.keepable(id));
    if (!choice.holds()) continue;
    const int64_t bytes = graph_.values[v].bytes_in(choice.way());
    for (const Span& s : lifetimes_.spans(id, choice.way())) {
      change[at(s.begin)] += bytes;
      change[at(s.end)] -= bytes;
    }
  }
  std::vector<int64_t> result(lifetimes_.events());
  int64_t kept = 0;
  for (size_t t = 0; t < result.size(); ++t) {
    kept += change[t];
    result[t] = lifetimes_.base()[t] + kept;
  }
  return result;
}

// The bound at these prices, and by how much each priced event's constraint is broken there: a subgradient.
double Bound::evaluate(const std::vector<double>& per_event, std::vector<double>& excess) {
  prices_.set(per_event);
  double value = cut_.solve(prices_.keep());
  std::vector<double> change(times_.size() + 1);
  const auto add = [&](const Span& s, double bytes) {
    const auto first = std::lower_bound(times_.begin(), times_.end(), s.begin) - times_.begin();
    const auto last = std::lower_bound(times_.begin(), times_.end(), s.end) - times_.begin();
    change[static_cast<size_t>(first)] += bytes;
    change[static_cast<size_t>(last)] -= bytes;
  };
  for (const ValueId v : cut_.kept()) {
    const int way = prices_.best_way(v);
    const auto bytes = static_cast<double>(graph_.values[at(v)].bytes_in(way));
    for (const Span& s : lifetimes_.spans(v, way)) add(s, bytes);
  }
  excess.resize(times_.size());
  double kept = 0;
  for (size_t i = 0; i < times_.size(); ++i) {
    kept += change[i];
    excess[i] = kept - headroom_[i];
    value -= per_event[at(times_[i])] * headroom_[i];
  }
  return value;
}

// One price at the tightest event of each rise, by bisection, all at once: where the steps start.
std::vector<double> Bound::one_price_per_rise() {
  std::vector<double> prices(lifetimes_.events()), excess;
  evaluate(prices, excess);
  double seconds = 0, bytes = 0;
  for (const Op& op : graph_.ops) seconds += op.seconds;
  for (const Value& v : graph_.values) bytes += static_cast<double>(v.bytes);
  const double lowest = seconds / std::max(1.0, bytes) * 1e-3;
  struct Bisection {
    size_t worst;  // into times_
    double low, high;
    double middle() const { return std::sqrt(low * high); }
  };
  std::vector<Bisection> bisections;
  for (const Rise& rise : rises_) {
    const auto first = std::lower_bound(times_.begin(), times_.end(), rise.begin) - times_.begin();
    const auto last = std::lower_bound(times_.begin(), times_.end(), rise.end) - times_.begin();
    if (first == last) continue;
    const auto worst = std::max_element(excess.begin() + first, excess.begin() + last) - excess.begin();
    if (excess[static_cast<size_t>(worst)] > 0)
      bisections.push_back({static_cast<size_t>(worst), lowest, lowest * 1e9});
  }
  for (int i = 0; i < kBisections && !bisections.empty() && !cut_.stopped(); ++i) {
    for (const Bisection& b : bisections) prices[at(times_[b.worst])] = b.middle();
    evaluate(prices, excess);
    for (Bisection& b : bisections) (excess[b.worst] > 0 ? b.low : b.high) = b.middle();
  }
  for (const Bisection& b : bisections) prices[at(times_[b.worst])] = b.middle();
  return prices;
}

void Bound::tighten(int64_t budget_bytes, double target_seconds, int steps) {
  choose_times(budget_bytes);
  std::vector<double> excess, direction(times_.size()), current = best_prices_;
  best_ = evaluate(current, excess);
  std::vector<double> start = one_price_per_rise(), start_excess;
  if (const double value = evaluate(start, start_excess); value > best_) {
    best_ = value;
    best_prices_ = start;
    current = start;
    excess = start_excess;
  }
  double value = best_, length = 1;
  int idle = 0;
  for (int step = 0; step < steps; ++step) {
    if (cut_.stopped() || target_seconds - best_ <= kCloseEnough * graph_.seconds) break;
    for (size_t i = 0; i < times_.size(); ++i) {
      if (excess[i] < 0 && current[at(times_[i])] <= 0) excess[i] = 0;
    }
    const double norm = turn(direction, excess);
    if (norm <= 0) break;
    const double stride = length * std::max(target_seconds - value, 1e-3 * std::abs(target_seconds)) / norm;
    for (size_t i = 0; i < times_.size(); ++i) {
      double& price = current[at(times_[i])];
      price = std::max(0.0, price + stride * direction[i]);
    }
    value = evaluate(current, excess);
    if (value > best_ + 1e-6 * graph_.seconds) {
      idle = 0;
    } else if (++idle >= kPatience) {
      idle = 0;
      length /= 2;
    }
    if (value > best_) {
      best_ = value;
      best_prices_ = current;
    } else if (idle == 0) {
      current = best_prices_;
      value = evaluate(current, excess);
      std::fill(direction.begin(), direction.end(), 0.0);
    }
  }
}

}  // namespace retrace::plan
