#include "plan/solve/priced_local_search.h"

#include <algorithm>
#include <utility>

namespace retrace::plan {
namespace {

constexpr double kFirstPrice = 0.1;                      // of the step's seconds, for as many bytes as the budget has
constexpr double kRise = 1.5, kFall = 0.2, kStuck = 32;  // of the price
constexpr double kSpread = 200;                          // how much the mean excess weighs beside the largest
constexpr double kOptimism = 1.5;                        // as much more than estimated a kept value may save
constexpr int kRemember = 6, kBan = 3;                   // sweeps
constexpr double kNever = 1e300;                         // seconds

}  // namespace

PricedLocalSearch::PricedLocalSearch(const Graph& graph, const Lifetimes& lifetimes, Search& search,
                                     const Effort& effort)
    : graph_(graph),
      lifetimes_(lifetimes),
      search_(search),
      effort_(effort),
      estimate_(graph, lifetimes),
      readers_(graph.values.size()) {
  for (const Op& op : graph.ops) {
    for (const Arg& arg : op.args) readers_[at(arg.value)] += arg.shape_only ? 0 : 1;
  }
  first_memory_.push_back(0);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    first_memory_.push_back(first_memory_.back() + Choice::hold(graph.values[v].way_count()).index());
    const auto id = static_cast<ValueId>(v);
    const bool matters = lifetimes.keepable(id) || lifetimes.asked(id) || readers_[v] > 1;
    if (!matters || graph.values[v].producer == kNone || search.fixed(id)) continue;
    values_.push_back(id);
  }
}

void PricedLocalSearch::reset(ValueId v) {
  for (size_t i = first_memory_[at(v)]; i < first_memory_[at(v) + 1]; ++i) memory_[i] = {};
}

// Our own, so that the order is the same with every standard library.
void PricedLocalSearch::shuffle() {
  for (size_t i = values_.size(); i > 1; --i) {
    random_ = random_ * 1664525 + 1013904223;
    std::swap(values_[i - 1], values_[(random_ >> 8) % i]);
  }
}

Price PricedLocalSearch::price() const { return {budget_bytes_, price_, kSpread}; }

double PricedLocalSearch::cost(const Outcome& outcome) const {
  return outcome.gave_up ? kNever : outcome.replay_seconds + price_ * outcome.excess;
}

void PricedLocalSearch::rebase() {
  outcome_ = search_.rebase(now_, price());
  over_until_.assign(1, 0);
  for (const int64_t peak : outcome_.event_peaks) over_until_.push_back(over_until_.back() + (peak > budget_bytes_));
  estimate_.reset(now_);
}

bool PricedLocalSearch::over_during(ValueId v) const {
  if (!lifetimes_.keepable(v)) return over_until_.back() > 0;
  const Span life = lifetimes_.whole(v);
  return over_until_[at(life.end)] > over_until_[at(life.begin)];
}

// -- Which changes are worth a run --

bool PricedLocalSearch::worth_trying(ValueId v, Choice to) const {
  const Choice from = now_[at(v)];
  if (from == to) return false;
  const Value& value = graph_.values[at(v)];
  if (to.holds() && (!lifetimes_.keepable(v) || banned_[at(v)] > sweeps_)) return false;
  // Whoever is read once and never asked for is not held anyway.
  if (!from.holds() && !to.holds() && !lifetimes_.asked(v) && readers_[at(v)] < 2) return false;
  // Slower and in fewer bytes: only where bytes are short.
  const bool slower = to == Choice::rebuild_each_time() || (from.holds() && !to.holds()) ||
                      (from.holds() && value.seconds_in(to.way()) >= value.seconds_in(from.way()));
  return !slower || over_during(v);
}

// How the excess changes with so many bytes more, or less, wherever keeping a value makes it live. For less: at best.
double PricedLocalSearch::excess_change(ValueId v, int64_t bytes) const {
  const auto over = [&](int64_t peak) { return static_cast<double>(std::max<int64_t>(0, peak - budget_bytes_)); };
  double sum = 0, most = 0;
  for (const Span& s : lifetimes_.spans(v, kAsItIs)) {
    for (int32_t e = s.begin; e < s.end; ++e) {
      const int64_t peak = outcome_.event_peaks[at(e)];
      sum += over(peak + bytes) - over(peak);
      most = std::max(most, over(peak + bytes));
    }
  }
  const double before = over(outcome_.peak_bytes);
  const double largest = bytes > 0 ? std::max(0.0, most - before) : -before;
  return largest + kSpread * sum / static_cast<double>(outcome_.event_peaks.size());
}

bool PricedLocalSearch::hopeless(ValueId v, Choice to) {
  const int64_t bytes = graph_.values[at(v)].bytes;
  const Choice from = now_[at(v)];
  if (from == Choice::keep() && !to.holds()) return estimate_.loss(v) + price_ * excess_change(v, -bytes) > 0;
  if (from.holds() || to != Choice::keep()) return false;
  // Kept, it may make a replay smaller that is too large now.
  const Span life = lifetimes_.whole(v);
  const int32_t elsewhere = over_until_.back() - (over_until_[at(life.end)] - over_until_[at(life.begin)]);
  return elsewhere == 0 && kOptimism * estimate_.gain(v) < price_ * excess_change(v, bytes);
}

// -- Trying --

void PricedLocalSearch::try_one(ValueId v, Choice to, Offer& best) {
  if (!worth_trying(v, to) || hopeless(v, to)) return;
  Memory& memory = memory_[first_memory_[at(v)] + to.index()];
  const bool fresh = sweeps_ - memory.sweep < kRemember;
  if (fresh && memory.seconds + price_ * memory.excess >= 0) return;
  const Choice from = std::exchange(now_[at(v)], to);
  const Outcome outcome = search_.run_incremental(now_, best.cost, price());
  now_[at(v)] = from;
  const double its_cost = cost(outcome);
  if (its_cost < best.cost) best = {to, its_cost};
  memory = {sweeps_, its_cost < kNever ? outcome.replay_seconds - outcome_.replay_seconds : kNever,
            outcome.excess - outcome_.excess};
}

bool PricedLocalSearch::improve(ValueId v) {
  if (!estimate_.needed(v)) {
    if (now_[at(v)].holds()) now_[at(v)] = Choice::rebuild();  // it only takes memory
    return false;
  }
  Offer best{now_[at(v)], cost(outcome_) * (1 - 1e-9)};
  for (const Choice to : all_choices(graph_.values[at(v)].way_count())) try_one(v, to, best);
  if (best.to == now_[at(v)]) return false;
  now_[at(v)] = best.to;
  reset(v);
  rebase();
  return true;
}

bool PricedLocalSearch::sweep() {
  rebase();
  shuffle();
  bool changed = false;
  for (const ValueId v : values_) {
    if (done()) break;
    changed |= improve(v);
  }
  ++sweeps_;
  return changed;
}

// No single change helps at any price: something that is kept at the peak has to be replaced by something else. The
// largest of it that was not banned lately may not be kept for a while.
void PricedLocalSearch::ban_one() {
  ValueId worst = kNone;
  const auto before = [&](ValueId a, ValueId b) {
    if (banned_[at(a)] != banned_[at(b)]) return banned_[at(a)] < banned_[at(b)];
    return graph_.values[at(a)].bytes > graph_.values[at(b)].bytes;
  };
  for (const auto& [v, rebuilt] : search_.live_at(now_, outcome_.peak_event)) {
    if (rebuilt || !now_[at(v)].holds() || search_.fixed(v)) continue;
    if (worst == kNone || before(v, worst)) worst = v;
  }
  if (worst == kNone) return;
  banned_[at(worst)] = sweeps_ + kBan;
  now_[at(worst)] = Choice::rebuild_each_time();
}

void PricedLocalSearch::explore(const Choices& start, const std::vector<int64_t>& budgets, size_t first, int64_t runs,
                                uint32_t seed) {
  last_run_ = search_.runs() + runs;
  random_ = seed;
  std::sort(values_.begin(), values_.end());
  now_ = start;
  banned_.assign(now_.size(), 0);
  memory_.assign(first_memory_.back(), {});
  sweeps_ = 0;
  size_t aim = first;
  budget_bytes_ = budgets[aim];
  const double first_price = kFirstPrice * graph_.seconds / static_cast<double>(std::max<int64_t>(1, budget_bytes_));
  price_ = first_price;
  while (!done()) {
    const bool changed = sweep();
    if (fits(outcome_)) {
      if (aim == 0) price_ *= kFall;
      aim = aim == 0 ? budgets.size() - 1 : aim - 1;
      budget_bytes_ = budgets[aim];
      std::fill(memory_.begin(), memory_.end(), Memory{});
    } else if (!changed && price_ > kStuck * first_price) {
      price_ /= kStuck;
      ban_one();
    } else {
      price_ *= kRise;
    }
  }
}

}  // namespace retrace::plan
