// What to let go of when memory runs short: whatever takes the fewest seconds per byte freed. Eviction (tape/evict.h)
// and its simulation share these rules.
//
// A step has weights() and
//   of an op: op(), is_op_alive(), is_pending(), first_look() (the first since start_looking()); looked_at(count);
//   of a value: producer() (none: a root), recorded_at(), is_held(), is_rebuilt(), is_at_hand() (held, rebuilt, or
//     somebody has it), is_alive(), has_handle(), evictable_bytes() (0: it cannot go), since_use() (events),
//     each_reader_down(value, op, f) (ops that read it, from `op` down, until f returns true),
//     each_way(value, f(way, bytes, seconds)) (to put it away);
//   goes_forward(), in_backward(), backward_at() (the op).
// Its Candidate is {value, score, way}.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "plan/simulate/rebuilding.h"

namespace retrace::eviction {

// What counts beside seconds and bytes. The powers are a compromise, tried out by simulation on tapes of our own models
// and examples: a lower one in forward is better for nets of layers, and worse for recurrent ones near their smallest
// budget.
struct Weights {
  double since_use = 0.5;           // power of the time since its last use, in forward
  double until_use = 0.25;          // power of the time until it is wanted, in backward, if held since forward
  double until_use_if_rebuilt = 1;  // the same, if it was rebuilt
  double shared = 0.25;             // share of an operator's seconds if it is to run again anyway, for something else
};

// Ancestors that are gone too must be rebuilt first. Looking at this many tells cheap from expensive.
inline constexpr int kMostAncestors = 128;
inline constexpr size_t kMostRanked = 32;
inline constexpr int64_t kEventsRanked = 64;
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();
inline constexpr double kMuchWorse = 1.5;  // times: by now others can go that the program had in hand

inline double power(double base, double exponent) {
  if (exponent == 0.5) return std::sqrt(base);
  if (exponent == 0.25) return std::sqrt(std::sqrt(base));
  return exponent == 1 ? base : std::pow(base, exponent);
}

// Whether it is at hand by the time somebody wants the evicted value. What only the program has does not count in
// forward: it will soon let go of much of that.
bool will_be_at_hand(const auto& step, int32_t value) {
  if (!step.goes_forward() || step.producer(value) < 0) return step.is_at_hand(value);
  return step.is_held(value) || step.is_rebuilt(value);
}

double replay_seconds(const auto& step, int32_t id, int32_t wanted) {
  const auto& op = step.op(id);
  const auto is_there = [&](int32_t other) { return step.is_at_hand(other); };
  const bool shortcut = op.shortcut_seconds > 0 && rebuilding::result_of(op.fresh.front()) == wanted &&
                        rebuilding::others_are_there(op.fresh, is_there);
  return shortcut ? op.shortcut_seconds : op.seconds;
}

// The seconds to rebuild a value; none if it cannot be rebuilt. Above `most_seconds` it may take even more than is
// returned.
std::optional<double> seconds_to_rebuild(auto& step, int32_t value, double most_seconds, auto is_there) {
  double seconds = 0;
  int looked = 0;
  std::vector<int32_t>& work = step.start_looking();
  work.assign(1, value);
  while (!work.empty()) {
    const int32_t wanted = work.back();
    work.pop_back();
    const int32_t producer = step.producer(wanted);
    if (producer < 0) return std::nullopt;
    if (!step.first_look(producer)) continue;
    const bool runs_anyway = step.is_op_alive(producer);
    seconds += replay_seconds(step, producer, wanted) * (runs_anyway ? step.weights().shared : 1);
    if (seconds > most_seconds) break;
    // Beyond this many, whether it is possible does not matter either: what is that deep has been kept so far.
    if (++looked > kMostAncestors) continue;
    for (const auto& arg : step.op(producer).args) {
      if (arg.shape_only) continue;
      if (arg.value == value) return std::nullopt;
      if (!is_there(arg.value)) work.push_back(arg.value);
    }
  }
  step.looked_at(looked);
  return seconds;
}

// The seconds to rebuild a value from what is left without it; none if that cannot be done.
std::optional<double> seconds_to_rebuild(auto& step, int32_t value, double most_seconds = kNoLimit) {
  const auto later = seconds_to_rebuild(step, value, most_seconds, [&](int32_t v) { return will_be_at_hand(step, v); });
  return later ? later : seconds_to_rebuild(step, value, most_seconds, [&](int32_t v) { return step.is_at_hand(v); });
}

// Where backward, which has come to `here` and goes down, wants the value: at an op that reads it and is to be run
// again, or whose gradient needs it.
int32_t next_use(auto& step, int32_t value, int32_t here) {
  int32_t found = step.recorded_at(value);
  step.each_reader_down(value, here, [&](int32_t reader) {
    const bool is_wanted = step.is_pending(reader) || step.has_handle(value);
    if (is_wanted) found = reader;
    return is_wanted;
  });
  return found;
}

double time_away(auto& step, int32_t value) {
  if (!step.in_backward()) return power(static_cast<double>(step.since_use(value)) + 1, step.weights().since_use);
  const int32_t here = step.backward_at();
  const double time = std::abs(here - next_use(step, value, here)) + 1;
  return power(time, step.is_rebuilt(value) ? step.weights().until_use_if_rebuilt : step.weights().until_use);
}

// What it takes to be without a value, in the cheapest way; none if it cannot go. A score above `most_score` says only
// that it is above: a long chain is not walked to its end for what turns out too expensive after a few operators.
template <class Step>
auto priced(Step& step, int32_t value, double most_score = kNoLimit) {
  std::optional<typename Step::Candidate> best;
  const int64_t bytes = step.evictable_bytes(value);
  if (bytes == 0) return best;
  // What no handle needs any more (a graph that died in forward) costs nothing to be without.
  if (!step.is_alive(value) && seconds_to_rebuild(step, value)) return best = {value, 0};
  const double away = time_away(step, value);
  const double byte_time = static_cast<double>(bytes) * away;
  if (const auto seconds = seconds_to_rebuild(step, value, most_score * byte_time))
    best = {value, *seconds / byte_time};
  step.each_way(value, [&](const auto& way, int64_t way_bytes, double way_seconds) {
    const double score = way_seconds / (static_cast<double>(bytes - way_bytes) * away);
    if (!best || score < best->score) best = {value, score, way};
  });
  return best;
}

// The best few candidates. To look at all values takes long, and memory that is short stays so for a while.
template <class Candidate>
struct Ranking {
  std::vector<Candidate> best;  // the best is last
  int64_t ranked_at = 0;        // an event
  double score = 0;             // of the best, then
};

// The best candidate of a ranking. What it takes to be without a value changes as others go: the value still counts as
// best while it is no worse than the next one was, and not much worse than the best was.
template <class Step>
auto best_ranked(Step& step, Ranking<typename Step::Candidate>& ranking, int64_t now) {
  std::optional<typename Step::Candidate> none;
  auto& best = ranking.best;
  if (now - ranking.ranked_at > kEventsRanked) best.clear();
  while (!best.empty()) {
    const auto found = priced(step, best.back().value);
    if (found && found->score > kMuchWorse * ranking.score && now > ranking.ranked_at) {
      best.clear();
      break;
    }
    const bool is_last = best.size() == 1;
    if (found && (is_last || found->score <= best.end()[-2].score)) return found;
    best.pop_back();
  }
  return none;
}

// Ranks the values that `each_value(f)` calls f with.
template <class Step>
void rank(Step& step, Ranking<typename Step::Candidate>& ranking, int64_t now, auto each_value) {
  auto& best = ranking.best;  // for now a heap: the worst is first
  best.clear();
  ranking.ranked_at = now;
  const auto is_better = [](const auto& a, const auto& b) { return a.score < b.score; };
  each_value([&](int32_t value) {
    const double most_score = best.size() < kMostRanked ? kNoLimit : best.front().score;
    const auto candidate = priced(step, value, most_score);
    if (!candidate || candidate->score >= most_score) return;
    best.push_back(*candidate);
    std::push_heap(best.begin(), best.end(), is_better);
    if (best.size() <= kMostRanked) return;
    std::pop_heap(best.begin(), best.end(), is_better);
    best.pop_back();
  });
  std::sort(best.rbegin(), best.rend(), is_better);
  ranking.score = best.empty() ? 0 : best.back().score;
}

}  // namespace retrace::eviction
