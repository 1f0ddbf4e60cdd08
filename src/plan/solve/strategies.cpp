#include <algorithm>

#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

constexpr int64_t kImproveWork = 300'000, kFewestRuns = 24, kMostRuns = 300;  // of values and events, in runs
constexpr size_t kSearchable = 12000;                                         // values and events
constexpr int64_t kSearchRuns = 200, kSearchSweeps = 4;  // for each budget, the latter of all values, in runs
constexpr double kHopeless = 3;                          // steps
constexpr double kTooManyTimes = 50;                     // steps, too
// Of the step: not worth another strategy. In a large graph each takes seconds.
constexpr double kCloseGap = 0.004, kCloseGapIfLarge = 0.02;
constexpr size_t kLarge = 5000;  // values

}  // namespace

Candidate finish(SolverContext& context, Candidate start, int64_t budget_bytes) {
  if (start.choices.empty()) return start;  // stopped before anything was found
  Candidate result = context.search.repair(std::move(start), budget_bytes);
  if (result.peak_bytes > budget_bytes) return result;
  result = context.search.fill(std::move(result), budget_bytes);
  result = context.search.relax(std::move(result), budget_bytes);
  return context.search.fill(std::move(result), budget_bytes);
}

bool close_to_bound(const SolverContext& context, const Candidate& best, int64_t budget_bytes) {
  const double gap = context.graph.values.size() < kLarge ? kCloseGap : kCloseGapIfLarge;
  return best.peak_bytes <= budget_bytes && best.seconds - context.bound.seconds() < gap * context.graph.seconds;
}

Choices keep_saved(const Graph& graph) {
  Choices choices(graph.values.size());
  for (const ValueId v : graph.handles) choices[at(v)] = Choice::keep();
  return choices;
}

Candidate rebuild_each_time(const Graph& graph, Effort& effort, int64_t most_bytes, double most_seconds) {
  Choices choices(graph.values.size(), Choice::rebuild_each_time());
  const Outcome outcome = Simulator(graph, &effort).run(choices, false, most_bytes, most_seconds);
  if (outcome.gave_up) return {};
  return {std::move(choices), outcome.peak_bytes, outcome.replay_seconds};
}

namespace {

// Values that everything later is computed from alone, in order: where a chain can be cut.
std::vector<ValueId> cut_vertices(const SolverContext& context) {
  const Graph& graph = context.graph;
  std::vector<OpId> last_reader(graph.values.size(), kNone);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for_each_read(graph.ops[o], [&](ValueId v) { last_reader[at(v)] = static_cast<OpId>(o); });
  }
  std::vector<ValueId> cuts;
  std::vector<std::vector<ValueId>> closing(graph.ops.size());
  int64_t open_count = 0, open_sum = 0;  // the sum of the ids is the id when one is open
  const auto open = [&](ValueId v) {
    if (last_reader[at(v)] == kNone || graph.values[at(v)].producer == kNone) return;
    ++open_count;
    open_sum += v;
    closing[at(last_reader[at(v)])].push_back(v);
  };
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for (const ValueId v : closing[o]) {
      --open_count;
      open_sum -= v;
    }
    for_each_output(graph.ops[o], open);
    const auto only = static_cast<ValueId>(open_sum);
    if (open_count == 1 && context.lifetimes.keepable(only) && (cuts.empty() || cuts.back() != only))
      cuts.push_back(only);
  }
  return cuts;
}

// Prices as if replays took no memory.
Candidate solve_mincut(SolverContext& context, int64_t budget_bytes, const Candidate&) {
  Bound& bound = context.bound;
  return finish(context, context.search.simulate(bound.choices(bound.per_event())), budget_bytes);
}

Choices holding_every(const SolverContext& context, const std::vector<ValueId>& cuts, size_t n, Choice others) {
  Choices choices(context.graph.values.size(), others);
  for (size_t i = n - 1; i < cuts.size(); i += n) choices[at(cuts[i])] = Choice::keep();
  return choices;
}

// From below: nothing is held but cut vertices. Where replays hardly fit, this finds plans that repairs do not.
Candidate solve_from_below(SolverContext& context, int64_t budget_bytes, const Candidate&) {
  const std::vector<ValueId> cuts = cut_vertices(context);
  Candidate best;
  for (size_t n = 1; n <= cuts.size() + 1; n += 1 + n / 8) {
    Candidate result = context.search.simulate(holding_every(context, cuts, n, Choice::rebuild_each_time()));
    const bool hopeless = result.seconds > kHopeless * context.graph.seconds;
    if (best.choices.empty() || is_better(result, best, budget_bytes)) best = std::move(result);
    if (hopeless || context.effort.exhausted()) break;  // the longer the segments, the slower
  }
  return finish(context, std::move(best), budget_bytes);
}

// From above: everything is held that autograd saved, and let go of one by one. Where nothing else fits, this may.
Candidate solve_greedy(SolverContext& context, int64_t budget_bytes, const Candidate& best) {
  if (best.fits(budget_bytes)) return best;
  return finish(context, context.search.simulate(keep_saved(context.graph)), budget_bytes);
}

// One value, or one kind of values, after another. Where the search by price is quick enough, that does better.
Candidate improve_best(SolverContext& context, int64_t budget_bytes, const Candidate& best) {
  const bool alone = best.choices.empty();
  if (!alone && can_search_by_price(context.graph)) return best;
  Candidate result = alone ? solve_greedy(context, budget_bytes, best) : best;
  const auto size = static_cast<int64_t>(context.graph.values.size() + context.graph.events.size());
  if (result.fits(budget_bytes + budget_bytes / 50)) {
    const int64_t runs = std::clamp(kImproveWork / size, kFewestRuns, kMostRuns);
    result = context.search.improve(std::move(result), budget_bytes, runs);
  }
  if (result.fits(budget_bytes)) result = context.search.fill(std::move(result), budget_bytes);
  return result;
}

// For one budget alone.
Candidate solve_priced(SolverContext& context, int64_t budget_bytes, const Candidate&) {
  context.search.collect(budget_bytes);
  search_by_price(context, {budget_bytes}, 0, context.bound.choices(context.bound.per_event()), 0, 1);
  return context.search.front().best(budget_bytes);
}

constexpr Strategy kStrategies[] = {
    {"mincut", solve_mincut, true},
    {"greedy", solve_greedy, true},
    {"from_eviction", solve_from_eviction, true},
    {"from_below", solve_from_below, true},
    {"from_frontiers", solve_from_frontiers, true},
    {"improve", improve_best, true},
    {kPricedSearch, solve_priced, false},
};

}  // namespace

std::span<const Strategy> all_strategies() { return kStrategies; }

// From many segments to few, each half as many; those take the square of their length.
Candidate lowest_of_segments(SolverContext& context, Choice others) {
  const std::vector<ValueId> cuts = cut_vertices(context);
  Candidate lowest;
  for (size_t n = 1; n <= cuts.size(); n *= 2) {
    Choices choices = holding_every(context, cuts, n, others);
    const Outcome outcome =
        Simulator(context.graph, &context.effort).run(choices, false, INT64_MAX, kTooManyTimes * context.graph.seconds);
    if (outcome.gave_up || (!lowest.choices.empty() && outcome.peak_bytes >= lowest.peak_bytes)) break;
    lowest = {std::move(choices), outcome.peak_bytes, outcome.replay_seconds};
  }
  return lowest;
}

bool can_search_by_price(const Graph& graph) { return graph.values.size() + graph.events.size() <= kSearchable; }

void search_by_price(SolverContext& context, const std::vector<int64_t>& budgets, size_t first, const Choices& start,
                     uint32_t seed, double effort) {
  const int64_t each = std::min(kSearchRuns, kSearchSweeps * static_cast<int64_t>(context.priced_search.values()));
  const auto runs = static_cast<int64_t>(effort * static_cast<double>(each)) * static_cast<int64_t>(budgets.size());
  context.priced_search.explore(start, budgets, first, runs, seed);
}

}  // namespace retrace::plan
