// The part of Search that brings a peak down.
#include <algorithm>
#include <queue>

#include "plan/solve/search.h"

namespace retrace::plan {
namespace {

constexpr int kRepairRounds = 8;
constexpr size_t kKindsTried = 3;
constexpr int kRelaxRuns = 40;

Choice in_fewest_bytes(const Value& value) {
  int best = kAsItIs;
  for (int way = 1; way < value.way_count(); ++way) {
    if (value.bytes_in(way) < value.bytes_in(best)) best = way;
  }
  return Choice::hold(best);
}

// Bytes above the budget, over all events: it falls even while another event has the same peak.
double shortage(const Outcome& outcome, int64_t budget_bytes) {
  double sum = 0;
  for (const int64_t peak : outcome.event_peaks) sum += static_cast<double>(std::max<int64_t>(0, peak - budget_bytes));
  return sum;
}

}  // namespace

// The cheapest way to hold a value in fewer bytes, or not at all: by the seconds it costs for the bytes it frees.
Search::Move Search::cheapest_drop(ValueId v, const Choices& choices) {
  const Choice from = choices[at(v)];
  const Value& value = graph_.values[at(v)];
  const double now = value.seconds_in(from.way());
  const double loss = estimate_.loss(v) - now;
  Move best{v, Choice::rebuild(), loss, std::max(0.0, loss) / std::max(1e-30, cost(v, from))};
  for (int way = 0; way < value.way_count(); ++way) {
    const Choice to = Choice::hold(way);
    if (bytes(v, to) >= bytes(v, from)) continue;
    const double more = std::max(0.0, value.seconds_in(way) - now);
    const double score = more / std::max(1e-30, cost(v, from) - cost(v, to));
    if (score < best.score) best = {v, to, more, score};
  }
  return best;
}

// Changes kept values in this way, the cheapest first, until nothing that is kept lives where bytes are short. Returns
// whether anything was changed.
bool Search::drop_round(Choices& choices, int64_t budget_bytes, const Outcome& outcome) {
  std::vector<int64_t> headroom;
  for (const int64_t peak : outcome.event_peaks) headroom.push_back(budget_bytes - peak);
  headroom_.reset(headroom);
  estimate_.reset(choices);
  const auto worse = [](const Move& a, const Move& b) {
    return a.score != b.score ? a.score > b.score : a.value > b.value;
  };
  std::priority_queue<Move, std::vector<Move>, decltype(worse)> queue(worse);
  for (size_t v = 0; v < choices.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (fixed_[v] == 0 && overlaps_shortage(id, choices[v])) queue.push(cheapest_drop(id, choices));
  }
  bool changed = false;
  while (!queue.empty() && headroom_.least() < 0) {
    const Move old = queue.top();
    queue.pop();
    if (!overlaps_shortage(old.value, choices[at(old.value)])) continue;
    const Move now = cheapest_drop(old.value, choices);
    if (now.score > old.score * 1.001 && !queue.empty() && now.score > queue.top().score) {
      queue.push(now);
      continue;
    }
    apply(choices, now.value, now.to);
    changed = true;
    if (overlaps_shortage(now.value, now.to)) queue.push(cheapest_drop(now.value, choices));
  }
  prune(choices);
  return changed;
}

std::vector<ValueId> Search::alike(ValueId v, const Choices& choices, Choice unlike) const {
  std::vector<ValueId> result;
  for (const ValueId other : kinds_[at(kind_[at(v)])]) {
    if (choices[at(other)] != unlike && !choices[at(other)].holds()) result.push_back(other);
  }
  return result;
}

// The peak is in a replay. Of the values it has rebuilt by then: hold them no longer than needed, or keep them so that
// it starts later; for all values made alike, since what is too much in one layer is too much in the next.
bool Search::shrink_replay(Candidate& current, int64_t budget_bytes, const Outcome& outcome) {
  std::vector<ValueId> live;
  for (const auto& [value, rebuilt] : simulator_.live_at(current.choices, outcome.peak_event)) {
    if (rebuilt && kind_[at(value)] != kNone && !current.choices[at(value)].holds()) live.push_back(value);
  }
  std::sort(live.begin(), live.end(), [&](ValueId a, ValueId b) {
    const int64_t x = graph_.values[at(a)].bytes, y = graph_.values[at(b)].bytes;
    return x != y ? x > y : a < b;
  });
  std::vector<int32_t> tried;
  const double before = shortage(outcome, budget_bytes);
  double best_score = 0;
  Candidate best;
  const auto consider = [&](ValueId v, Choice to) {
    Choices choices = current.choices;
    bool changed = false;
    for (const ValueId other : alike(v, choices, to)) {
      if (to.holds() && !lifetimes_.keepable(other)) continue;
      choices[at(other)] = to.holds() ? in_fewest_bytes(graph_.values[at(other)]) : to;
      changed = true;
    }
    if (!changed) return;
    const Outcome result = run(choices, true);
    const double freed = before - shortage(result, budget_bytes);
    if (freed <= 1e-3 * before) return;
    const double score = freed / std::max(1e-6 * graph_.seconds, result.replay_seconds - current.seconds);
    if (score <= best_score) return;
    best_score = score;
    best = candidate(choices, result);
  };
  for (const ValueId v : live) {
    if (std::find(tried.begin(), tried.end(), kind_[at(v)]) != tried.end()) continue;
    tried.push_back(kind_[at(v)]);
    if (tried.size() > kKindsTried || effort_.exhausted()) break;
    consider(v, Choice::rebuild_each_time());
    consider(v, Choice::keep());
  }
  if (best_score <= 0) return false;
  current = std::move(best);
  return true;
}

Candidate Search::repair(Candidate current, int64_t budget_bytes) {
  double least = 1e300;
  for (int round = 0; round < kRepairRounds && !effort_.exhausted(); ++round) {
    const Outcome outcome = run(current.choices, true);
    current = candidate(current.choices, outcome);
    if (outcome.peak_bytes <= budget_bytes) break;
    const double now = shortage(outcome, budget_bytes);
    const bool stuck = now > 0.98 * least;
    least = std::min(least, now);
    if (!stuck && drop_round(current.choices, budget_bytes, outcome)) continue;
    if (shrink_replay(current, budget_bytes, outcome)) continue;
    if (!stuck || !drop_round(current.choices, budget_bytes, outcome)) break;
  }
  return simulate(current.choices);
}

Candidate Search::relax(Candidate best, int64_t budget_bytes) {
  std::vector<std::vector<ValueId>> work;
  for (const auto& kind : kinds_) {
    std::vector<ValueId> members;
    for (const ValueId v : kind) {
      if (best.choices[at(v)] == Choice::rebuild_each_time()) members.push_back(v);
    }
    if (!members.empty()) work.push_back(std::move(members));
  }
  std::sort(work.begin(), work.end(), [&](const auto& a, const auto& b) {
    return graph_.values[at(a.front())].bytes < graph_.values[at(b.front())].bytes;
  });
  for (int runs = 0; runs < kRelaxRuns && static_cast<size_t>(runs) < work.size() && !effort_.exhausted(); ++runs) {
    const std::vector<ValueId> members = work[static_cast<size_t>(runs)];
    Choices choices = best.choices;
    for (const ValueId v : members) choices[at(v)] = Choice::rebuild();
    const Outcome outcome = run_to_beat(choices, best, budget_bytes);
    if (outcome.peak_bytes <= budget_bytes && outcome.replay_seconds <= best.seconds) {
      best = candidate(choices, outcome);
    } else if (members.size() > 1) {
      const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
      work.emplace_back(members.begin(), middle);
      work.emplace_back(middle, members.end());
    }
  }
  return best;
}

}  // namespace retrace::plan
