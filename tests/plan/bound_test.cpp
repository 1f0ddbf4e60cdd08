// The bound proves what it says: no choices at all, random or exhaustive, are faster within the budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/brute.h"
#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

Choices random_choices(const Graph& graph, std::mt19937& random) {
  // Some mostly keep, some mostly rebuild.
  const auto bias = random() % 10;
  Choices choices(graph.values.size());
  for (size_t v = 0; v < choices.size(); ++v) {
    const std::vector<Choice> all = all_choices(graph.values[v].way_count());
    choices[v] = random() % 10 < bias ? Choice::keep() : all[random() % all.size()];
  }
  return choices;
}

TEST(Bound, IsNeverAboveAnyChoicesOfThousandsOfRandomGraphs) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Graph graph = synthetic_random(seed, 3 + static_cast<int>(seed % 23));
    ASSERT_NO_THROW(check(graph));
    Simulator simulator(graph);
    for (int i = 0; i < 6; ++i) {
      const Outcome outcome = simulator.run(random_choices(graph, random));
      // Its own peak is the tightest budget it fits.
      EXPECT_LE(Planner(graph).lower_bound(outcome.peak_bytes), outcome.replay_seconds + 1e-9) << "seed " << seed;
    }
  }
}

TEST(Bound, IsNeverAboveTheBestOfAllPlansOfTinyGraphs) {
  int graphs = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Graph graph = synthetic_random(seed, 4);
    const auto all = try_all(graph);
    if (!all) continue;
    ++graphs;
    std::vector<int64_t> budgets;
    for (const Tried& t : *all) budgets.push_back(t.peak_bytes);
    std::sort(budgets.begin(), budgets.end());
    budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
    for (const int64_t budget : budgets)
      EXPECT_LE(Planner(graph).lower_bound(budget), *best_of(*all, budget) + 1e-9)
          << "seed " << seed << " budget " << budget;
  }
  EXPECT_GT(graphs, 50);
}

TEST(Bound, IsZeroWhereNothingHasToGo) {
  const Graph graph = synthetic_transformer(2);
  const int64_t plain = Simulator(graph).run(keep_saved(graph)).peak_bytes;
  EXPECT_EQ(Planner(graph).lower_bound(plain), 0);
  EXPECT_GT(Planner(graph).lower_bound(plain / 2), 0);
}

TEST(Bound, OfSeveralBackwardsIsThatOfEach) {
  const Graph once = synthetic_transformer(2), often = repeated(once, 5);
  ASSERT_NO_THROW(check(often));
  const int64_t plain = Simulator(once).run(keep_saved(once)).peak_bytes;
  ASSERT_EQ(Simulator(often).run(keep_saved(often)).peak_bytes, plain);
  for (const int percent : {80, 60}) {
    const int64_t budget = plain / 100 * percent;
    EXPECT_GT(Planner(often).lower_bound(budget), 0.9 * 5 * Planner(once).lower_bound(budget)) << percent;
  }
}

TEST(Bound, NeverFallsWhenTheBudgetDoes) {
  const Graph graph = synthetic_resnet(2);
  const int64_t plain = Simulator(graph).run(keep_saved(graph)).peak_bytes;
  double before = 0;
  for (int percent = 100; percent >= 70; percent -= 5) {
    const double now = Planner(graph).lower_bound(plain * percent / 100);
    EXPECT_GE(now, before - 1e-3 * graph.seconds);
    before = now;
  }
}

}  // namespace
}  // namespace retrace::plan
