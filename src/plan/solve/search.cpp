#include "plan/solve/search.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace retrace::plan {
namespace {

// How hard to try, in simulator runs. By count, not by clock: the same graph gives the same plan everywhere.
constexpr int kHalvings = 5;
constexpr int64_t kSmallShare = 500;
constexpr size_t kLarge = 5000;  // values
// A plan that takes many times the step is none. In steps; and in forwards, where operators are a small part of a step:
// a long recurrence would be simulated for hundreds of forwards.
constexpr double kTooSlow = 20, kTooSlowIfLarge = 3, kForwards = 6, kForwardsIfQuick = 3;

}  // namespace

Search::Search(const Graph& graph, const Lifetimes& lifetimes, Effort& effort, Runs runs)
    : graph_(graph),
      lifetimes_(lifetimes),
      effort_(effort),
      // In a large graph copies of states would take more than they save.
      whole_runs_(runs == Runs::whole || graph.values.size() >= kLarge),
      simulator_(graph, &effort),
      estimate_(graph, lifetimes),
      kind_(graph.values.size(), kNone),
      readers_(graph.values.size()),
      fixed_(graph.values.size()) {
  std::unordered_map<std::string, int32_t> known;
  const auto sort_in = [&](ValueId v, const Op& op, size_t position) {
    const std::string key = op.name + ' ' + std::to_string(position) + ' ' + std::to_string(graph.values[at(v)].bytes);
    const auto [found, added] = known.try_emplace(key, static_cast<int32_t>(kinds_.size()));
    if (added) kinds_.emplace_back();
    kind_[at(v)] = found->second;
    kinds_[at(found->second)].push_back(v);
  };
  for (const Op& op : graph.ops) {
    size_t position = 0;
    for (const ValueId v : op.fresh) sort_in(v, op, position++);
    for (const Arg& arg : op.args) {
      if (!arg.shape_only) ++readers_[at(arg.value)];
      if (arg.becomes != kNone) sort_in(arg.becomes, op, position++);
    }
  }
  double forward_seconds = 0;
  for (const Op& op : graph.ops) forward_seconds += op.seconds;
  too_slow_ = std::min(graph.seconds * (graph.values.size() < kLarge ? kTooSlow : kTooSlowIfLarge),
                       forward_seconds * (runs == Runs::whole ? kForwardsIfQuick : kForwards));
  find_small();
}

// A batch norm's saved mean is a few bytes; to have it again takes the whole operator, in the midst of a node that has
// its large siblings in hand. So whatever is this small is kept: all of it together is a five-hundredth of what could
// be.
void Search::find_small() {
  std::vector<ValueId> order;
  int64_t all = 0;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!lifetimes_.asked(id) || !lifetimes_.keepable(id)) continue;
    order.push_back(id);
    all += graph_.values[v].bytes;
  }
  std::sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
    const int64_t x = graph_.values[at(a)].bytes, y = graph_.values[at(b)].bytes;
    return x != y ? x < y : a < b;
  });
  int64_t sum = 0;
  for (const ValueId v : order) {
    sum += graph_.values[at(v)].bytes;
    if (sum > all / kSmallShare) break;
    small_.push_back(v);
    fixed_[at(v)] = 1;
  }
}

void Search::keep_small(Choices& choices) const {
  for (const ValueId v : small_) choices[at(v)] = Choice::keep();
}

Outcome Search::record(const Choices& choices, Outcome outcome) {
  ++runs_;
  if (!outcome.gave_up) {
    if (outcome.peak_bytes <= collected_bytes_) front_.add(choices, outcome.peak_bytes, outcome.replay_seconds);
    return outcome;
  }
  outcome.peak_bytes = kGaveUp;
  if (!outcome.event_peaks.empty()) outcome.event_peaks.resize(graph_.events.size(), kGaveUp);
  return outcome;
}

Outcome Search::run(const Choices& choices, bool event_peaks) {
  return record(choices, whole_runs_ ? simulator_.run(choices, event_peaks, INT64_MAX, too_slow_)
                                     : simulator_.run_incremental(choices, too_slow_));
}

// Incremental runs end soon anyway, and what they find may suit another budget.
Outcome Search::run_to_beat(const Choices& choices, const Candidate& best, int64_t budget_bytes) {
  if (!whole_runs_) return run(choices, true);
  return record(choices, simulator_.run(choices, true, budget_bytes, std::min(best.seconds, too_slow_)));
}

Outcome Search::run_incremental(const Choices& choices, double give_up_seconds, const Price& price) {
  return record(choices, simulator_.run_incremental(choices, std::min(give_up_seconds, too_slow_), price));
}

Outcome Search::rebase(const Choices& choices, const Price& price) {
  return record(choices, simulator_.rebase(choices, too_slow_, price));
}

Candidate Search::candidate(const Choices& choices, const Outcome& outcome) const {
  return {choices, outcome.peak_bytes, outcome.replay_seconds};
}

Candidate Search::simulate(Choices choices) {
  keep_small(choices);
  prune(choices);
  const Outcome outcome = run(choices, false);
  return candidate(choices, outcome);
}

// A value that is kept and not needed only takes memory.
void Search::prune(Choices& choices) {
  for (size_t v = 0; v < choices.size(); ++v) {
    choices[v] = possible(choices[v], graph_.values[v], lifetimes_.keepable(static_cast<ValueId>(v)));
  }
  estimate_.reset(choices);
  for (size_t v = 0; v < choices.size(); ++v) {
    if (choices[v].holds() && !estimate_.needed(static_cast<ValueId>(v))) {
      choices[v] = Choice::rebuild();
      estimate_.remove_source(static_cast<ValueId>(v));
    }
  }
}

int64_t Search::bytes(ValueId v, Choice choice) const {
  return choice.holds() ? graph_.values[at(v)].bytes_in(choice.way()) : 0;
}

// What holding it takes from others. Of values that cost the same, those that live longer cost more.
double Search::cost(ValueId v, Choice choice) const {
  if (!choice.holds()) return 0;
  const Span life = lifetimes_.whole(v);
  const double share = static_cast<double>(life.end - life.begin) / static_cast<double>(lifetimes_.events());
  return static_cast<double>(bytes(v, choice)) * (1 + 0.01 * share);
}

void Search::occupy(ValueId v, Choice choice, int64_t sign) {
  if (!choice.holds()) return;
  for (const Span& s : lifetimes_.spans(v, choice.way())) headroom_.add(s.begin, s.end, -sign * bytes(v, choice));
}

bool Search::overlaps_shortage(ValueId v, Choice choice) const {
  if (bytes(v, choice) == 0) return false;
  const auto spans = lifetimes_.spans(v, choice.way());
  return std::any_of(spans.begin(), spans.end(), [&](const Span& s) { return headroom_.least(s.begin, s.end) < 0; });
}

bool Search::fits(ValueId v, Choice from, Choice to) {
  occupy(v, from, -1);
  bool fit = true;
  for (const Span& s : lifetimes_.spans(v, to.way())) fit = fit && headroom_.least(s.begin, s.end) >= bytes(v, to);
  occupy(v, from, 1);
  return fit;
}

void Search::apply(Choices& choices, ValueId v, Choice to) {
  Choice& choice = choices[at(v)];
  occupy(v, choice, -1);
  occupy(v, to, 1);
  choice = to;
  to.holds() ? estimate_.add_source(v) : estimate_.remove_source(v);
}

// -- Fill --

Search::Move Search::best_move(ValueId v, const Choices& choices) {
  const Choice from = choices[at(v)];
  const Value& value = graph_.values[at(v)];
  Move best{v, from, 0, 0};
  const auto consider = [&](Choice to, double seconds) {
    const double score = seconds / std::max(1e-30, cost(v, to) - cost(v, from));
    if (seconds > 0 && score > best.score && fits(v, from, to)) best = {v, to, seconds, score};
  };
  if (!from.holds() && !estimate_.needed(v)) return best;
  const double now = from.holds() ? value.seconds_in(from.way()) : estimate_.gain(v);
  for (int way = 0; way < value.way_count(); ++way) {
    if (Choice::hold(way) != from) consider(Choice::hold(way), now - value.seconds_in(way));
  }
  return best;
}

// Moves in the order of what they save for what they cost; applied to `choices` as they are chosen.
std::vector<Search::Move> Search::choose_batch(Choices& choices, const std::vector<char>& refused) {
  const auto worse = [](const Move& a, const Move& b) {
    return a.score != b.score ? a.score < b.score : a.value < b.value;
  };
  std::priority_queue<Move, std::vector<Move>, decltype(worse)> queue(worse);
  for (size_t v = 0; v < choices.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!lifetimes_.keepable(id) || choices[v] == Choice::keep() || refused[v] != 0 || fixed_[v] != 0) continue;
    if (const Move move = best_move(id, choices); move.score > 0) queue.push(move);
  }
  std::vector<Move> batch;
  while (!queue.empty()) {
    const Move old = queue.top();
    queue.pop();
    const Move now = best_move(old.value, choices);
    if (now.score <= 0) continue;
    if (now.score < old.score * 0.999 && !queue.empty() && now.score < queue.top().score) {
      queue.push(now);
      continue;
    }
    apply(choices, now.value, now.to);
    batch.push_back(now);
  }
  return batch;
}

Candidate Search::fill(Candidate best, int64_t budget_bytes, int rounds) {
  std::vector<char> refused(best.choices.size());
  Outcome outcome = run(best.choices, true);
  for (int round = 0; round < rounds && !effort_.exhausted(); ++round) {
    std::vector<int64_t> headroom;
    for (const int64_t peak : outcome.event_peaks) headroom.push_back(budget_bytes - peak);
    headroom_.reset(headroom);
    estimate_.reset(best.choices);
    Choices choices = best.choices;
    std::vector<Move> batch = choose_batch(choices, refused);
    bool improved = false;
    for (int halving = 0; !batch.empty() && halving <= kHalvings && !effort_.stopped(); ++halving) {
      Choices pruned = choices;
      prune(pruned);
      Outcome tried = run_to_beat(pruned, best, budget_bytes);
      if (tried.peak_bytes <= budget_bytes && tried.replay_seconds < best.seconds) {
        best = candidate(pruned, tried);
        outcome = std::move(tried);
        improved = true;
        break;
      }
      const size_t half = batch.size() / 2;
      if (half == 0) refused[at(batch.front().value)] = 1;
      choices = best.choices;
      batch.resize(half);
      for (const Move& move : batch) choices[at(move.value)] = move.to;
    }
    if (!improved && batch.size() != 0) break;
    if (!improved && std::find(refused.begin(), refused.end(), 1) == refused.end()) break;
  }
  return best;
}

}  // namespace retrace::plan
