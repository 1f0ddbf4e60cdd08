// Against the exact optimum of the model.
#include <gtest/gtest.h>

#include "plan/exact.h"
#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

// Cbc stops looking for anything that is better by less.
constexpr double kCbc = 2e-5;

struct Compared {
  int budgets = 0, with_plan = 0, exact_fits = 0, equal = 0;
};

// At each budget: the bound is not above the optimum of the model, and no plan is below it. Where the optimum's own
// plan fits, it is the best there is, and `best` comes within two percent of the step.
void compare(const Graph& graph, Compared& compared, const std::string& what) {
  Simulator simulator(graph);
  const int64_t plain = simulator.run(keep_saved(graph)).peak_bytes;
  for (const int percent : {95, 88, 80, 70}) {
    const int64_t budget = plain / 100 * percent;
    const auto exact = solve_exact(graph, budget);
    const Answer answer = solve(graph, budget);
    const std::string where = what + " at " + std::to_string(percent) + " %";
    if (!exact) {
      EXPECT_FALSE(answer.plan.has_value()) << where;
      continue;
    }
    ++compared.budgets;
    EXPECT_LE(Planner(graph).lower_bound(budget), exact->seconds + kCbc) << where;
    const Outcome outcome = simulator.run(exact->choices);
    const bool fits = outcome.peak_bytes <= budget;
    EXPECT_TRUE(answer.plan.has_value() || !fits) << where;
    if (!answer.plan) continue;
    ++compared.with_plan;
    EXPECT_GE(answer.plan->replay_seconds, exact->seconds - kCbc) << where;
    if (!fits) continue;
    ++compared.exact_fits;
    EXPECT_LE(answer.plan->replay_seconds, outcome.replay_seconds + 0.02 * graph.seconds) << where;
    compared.equal += answer.plan->replay_seconds <= outcome.replay_seconds + 1e-6;
  }
}

TEST(Exact, BestIsWithinTwoPercentAndTheBoundIsNeverAboveOnRandomGraphs) {
  if (!have_exact()) GTEST_SKIP() << "cbc is not installed (package coinor-cbc)";
  Compared compared;
  for (uint32_t seed = 0; seed < 25; ++seed) {
    compare(synthetic_random(seed, 8 + static_cast<int>(seed % 20)), compared, "seed " + std::to_string(seed));
  }
  EXPECT_GT(compared.budgets, 50);
  EXPECT_GT(compared.exact_fits, 25);
  EXPECT_GT(compared.equal, compared.exact_fits * 2 / 3);
}

TEST(Exact, BestIsWithinTwoPercentAndTheBoundIsNeverAboveOnAShortTransformer) {
  if (!have_exact()) GTEST_SKIP() << "cbc is not installed (package coinor-cbc)";
  Compared compared;
  compare(synthetic_transformer(1), compared, "one layer");
  compare(synthetic_transformer(2), compared, "two layers");
  compare(synthetic_chain(30), compared, "chain");
  EXPECT_GT(compared.with_plan, 6);
}

}  // namespace
}  // namespace retrace::plan
