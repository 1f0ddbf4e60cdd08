// The part of Search that looks around a plan for a better one.
#include <algorithm>

#include "plan/solve/search.h"

namespace retrace::plan {
namespace {

constexpr double kWorthFilling = 0.05;  // of the step: as much slower a change may be at first

}  // namespace

bool Search::improves(const Outcome& outcome, const Candidate& best, int64_t budget_bytes) const {
  if (best.peak_bytes > budget_bytes) return outcome.peak_bytes < best.peak_bytes;
  return outcome.peak_bytes <= budget_bytes && outcome.replay_seconds < best.seconds * (1 - 1e-9);
}

// Everything a value, or all values of a kind, could be instead.
std::vector<Search::Change> Search::changes(const Choices& choices, bool alike_together) {
  std::vector<Change> result;
  estimate_.reset(choices);
  const auto useful = [&](ValueId v, Choice to) {
    const Choice from = choices[at(v)];
    if (from == to || fixed_[at(v)] != 0 || !estimate_.needed(v) || graph_.values[at(v)].producer == kNone)
      return false;
    if (to.holds()) return lifetimes_.keepable(v) && to.way() < graph_.values[at(v)].way_count();
    // Whoever is read once and never asked for is not held anyway.
    return from.holds() || lifetimes_.asked(v) || readers_[at(v)] > 1;
  };
  const auto add = [&](const std::vector<ValueId>& values) {
    int ways = 0;
    for (const ValueId v : values) ways = std::max(ways, graph_.values[at(v)].way_count());
    for (const Choice to : all_choices(ways)) {
      Change change{{}, to};
      for (const ValueId v : values) {
        if (useful(v, to)) change.values.push_back(v);
      }
      if (!change.values.empty()) result.push_back(std::move(change));
    }
  };
  if (!alike_together) {
    // Backward's own order: what it needs last is tightest.
    for (size_t v = 0; v < choices.size(); ++v) add({static_cast<ValueId>(v)});
    return result;
  }
  for (const auto& kind : kinds_) {
    if (kind.size() < 2) continue;
    const auto middle = kind.begin() + static_cast<std::ptrdiff_t>(kind.size() / 2);
    add(kind);
    add({kind.begin(), middle});
    add({middle, kind.end()});
  }
  return result;
}

bool Search::try_change(const Change& change, Candidate& best, int64_t budget_bytes) {
  Choices choices = best.choices;
  for (const ValueId v : change.values) choices[at(v)] = change.to;
  prune(choices);
  if (choices == best.choices) return false;
  Outcome outcome = run(choices, true);
  for (const ValueId v : change.values) fixed_[at(v)] = 1;
  // Faster, but too much: what has to go instead?
  for (int i = 0; i < 3 && outcome.peak_bytes > budget_bytes && outcome.replay_seconds < best.seconds; ++i) {
    if (!drop_round(choices, budget_bytes, outcome)) break;
    outcome = run(choices, true);
  }
  Candidate result = candidate(choices, outcome);
  // It fits, perhaps with bytes to spare: what could come in?
  if (outcome.peak_bytes <= budget_bytes && !improves(outcome, best, budget_bytes) &&
      outcome.replay_seconds < best.seconds + kWorthFilling * graph_.seconds) {
    result = fill(std::move(result), budget_bytes, 2);
  }
  for (const ValueId v : change.values) fixed_[at(v)] = 0;
  const bool fits = result.peak_bytes <= budget_bytes, did = best.peak_bytes <= budget_bytes;
  const bool is_better = did ? fits && result.seconds < best.seconds * (1 - 1e-9) : result.peak_bytes < best.peak_bytes;
  if (is_better) best = std::move(result);
  return is_better;
}

Candidate Search::improve(Candidate best, int64_t budget_bytes, int64_t runs) {
  const int64_t end = runs_ + runs;
  const auto done = [&] { return runs_ >= end || effort_.exhausted(); };
  for (bool improved = true; improved && !done();) {
    improved = false;
    for (const bool together : {true, false}) {
      for (const Change& change : changes(best.choices, together)) {
        if (done()) break;
        improved |= try_change(change, best, budget_bytes);
      }
    }
  }
  return best;
}

}  // namespace retrace::plan
