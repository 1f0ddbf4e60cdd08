// What eviction would do, as a plan. It lets go of something only when memory runs short, by what it takes there and
// then. Where replays take much memory themselves, in long recurrences above all, that comes closer than prices for
// whole lifetimes do.
#include "plan/simulate/eviction_simulation.h"
#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

// Chosen so that for each of the tapes of our models and examples one of them is good.
constexpr eviction::Weights kWeights[] = {
    {},
    {.since_use = 0, .until_use = 0.5, .until_use_if_rebuilt = 1, .shared = 0.1},
    {.since_use = 0.25, .until_use = 1, .until_use_if_rebuilt = 1, .shared = 0.25},
};
// Budgets to evict for, of the one that is asked for: a plan holds what it rebuilds for longer than eviction does.
constexpr double kAims[] = {1, 0.94, 0.88, 0.82};
constexpr double kTooSlow = 3;  // steps

// What had to be forgotten again is not held when it is rebuilt.
Choices each_time_if_forgotten_again(const EvictionSimulation::Result& evicted) {
  Choices choices = evicted.choices;
  for (size_t v = 0; v < choices.size(); ++v) {
    if (evicted.forgotten_again[v] != 0 && !choices[v].holds()) choices[v] = Choice::rebuild_each_time();
  }
  return choices;
}

}  // namespace

Outcome by_eviction(const Graph& graph, int64_t budget_bytes, Effort* effort) {
  return EvictionSimulation(graph, effort).run(keep_saved(graph), budget_bytes).outcome;
}

// As it is, for a quick plan.
Candidate evicted(SolverContext& context, int64_t budget_bytes) {
  EvictionSimulation eviction(context.graph, &context.effort);
  return context.search.simulate(
      eviction.run(keep_saved(context.graph), budget_bytes, kTooSlow * context.graph.seconds).choices);
}

Candidate solve_from_eviction(SolverContext& context, int64_t budget_bytes, const Candidate&) {
  EvictionSimulation eviction(context.graph, &context.effort);
  Candidate best;
  const auto consider = [&](Choices choices) {
    Candidate found = finish(context, context.search.simulate(std::move(choices)), budget_bytes);
    if (best.choices.empty() || is_better(found, best, budget_bytes)) best = std::move(found);
  };
  for (const double aim : kAims) {
    for (const eviction::Weights& weights : kWeights) {
      if (context.effort.exhausted()) return best;
      const EvictionSimulation::Result result =
          eviction.run(keep_saved(context.graph), static_cast<int64_t>(aim * static_cast<double>(budget_bytes)),
                       kTooSlow * context.graph.seconds, weights);
      if (result.outcome.gave_up) continue;
      consider(result.choices);
      if (!best.fits(budget_bytes)) consider(each_time_if_forgotten_again(result));
    }
    if (best.fits(budget_bytes)) break;
  }
  return best;
}

}  // namespace retrace::plan
