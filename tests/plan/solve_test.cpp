// What solve() promises, whatever the graph.
#include <gtest/gtest.h>

#include <set>

#include <retrace/errors.h>

#include "plan/brute.h"
#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

int64_t plain_peak(const Graph& graph) { return Simulator(graph).run(keep_saved(graph)).peak_bytes; }

TEST(Solve, EveryStrategysPlanPassesVerify) {
  for (const Graph& graph : {synthetic_transformer(3), synthetic_resnet(1), synthetic_chain(60)}) {
    for (const std::string& strategy : strategies()) {
      for (const int percent : {95, 80, 60}) {
        const Answer answer = solve(graph, plain_peak(graph) * percent / 100, {strategy});
        if (!answer.plan) continue;
        EXPECT_NO_THROW(verify(*answer.plan, graph)) << strategy << " at " << percent;
        EXPECT_GE(answer.plan->gap(), 0);
      }
    }
  }
}

TEST(Solve, EveryStrategysPlanPassesVerifyOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Graph graph = synthetic_random(seed, 5 + static_cast<int>(seed % 20));
    for (const std::string& strategy : strategies()) {
      const Answer answer = solve(graph, plain_peak(graph) * 85 / 100, {strategy});
      if (!answer.plan) continue;
      EXPECT_NO_THROW(verify(*answer.plan, graph)) << strategy << " seed " << seed;
    }
  }
}

TEST(Solve, WhateverAStrategyFindsIsConfirmedByTheSimulator) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Graph graph = synthetic_random(seed, 5 + static_cast<int>(seed % 20));
    EXPECT_NO_THROW(solve(graph, plain_peak(graph) * 85 / 100, {.verify_strategies = true})) << "seed " << seed;
  }
  const Graph graph = synthetic_transformer(3);
  EXPECT_NO_THROW(solve(graph, plain_peak(graph) / 2, {.verify_strategies = true}));
}

TEST(Solve, TellsWhichStrategiesItUsedAndForHowLong) {
  const Graph graph = synthetic_transformer(3);
  const Answer answer = solve(graph, plain_peak(graph) * 40 / 100);
  ASSERT_FALSE(answer.strategies.empty());
  EXPECT_EQ(answer.strategies.front().name, "mincut");
  double sum = 0;
  for (const StrategyUse& use : answer.strategies) {
    EXPECT_GT(use.calls, 0) << use.name;
    sum += use.seconds;
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, answer.plan->planning_seconds);
}

TEST(Solve, AnyStrategyCanBeSwitchedOff) {
  const Graph graph = synthetic_transformer(3);
  const int64_t budget = plain_peak(graph) * 60 / 100;
  std::vector<std::string> all(strategies().begin() + 1, strategies().end());
  for (const std::string& name : all) {
    const Answer answer = solve(graph, budget, {.without = {name}});
    ASSERT_TRUE(answer.plan.has_value()) << name;
    EXPECT_NO_THROW(verify(*answer.plan, graph)) << name;
    for (const StrategyUse& use : answer.strategies) EXPECT_NE(use.name, name);
  }
  const Answer none = solve(graph, budget, {.without = all});
  ASSERT_TRUE(none.plan.has_value());
  EXPECT_EQ(none.plan->strategy, "rebuild_each_time");
  EXPECT_TRUE(none.strategies.empty());
  EXPECT_THROW(solve(graph, budget, {.without = {"luck"}}), UsageError);
}

TEST(Solve, ALargerBudgetIsNeverSlower) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Graph graph = synthetic_random(seed, 8 + static_cast<int>(seed % 20));
    const int64_t most = plain_peak(graph), least = smallest(graph).peak_bytes;
    double before = 1e300;
    Planner planner(graph);
    for (int64_t budget = std::min(least, most) - 3000; budget <= most + 1000; budget += 701) {
      const Answer answer = planner.solve(budget);
      if (!answer.plan) {
        EXPECT_EQ(before, 1e300) << "seed " << seed << ": a smaller budget had a plan";
        continue;
      }
      EXPECT_LE(answer.plan->seconds, before) << "seed " << seed << " budget " << budget;
      before = answer.plan->seconds;
    }
  }
}

TEST(Solve, APlanDoesNotDependOnWhatWasSolvedBefore) {
  const Graph graph = synthetic_transformer(3);
  const int64_t most = plain_peak(graph);
  Planner planner(graph);
  for (const int percent : {70, 45, 90, 55, 45}) {
    const int64_t budget = most / 100 * percent;
    EXPECT_EQ(planner.solve(budget).plan->seconds, solve(graph, budget).plan->seconds) << percent;
  }
}

TEST(Solve, ALargerBudgetIsNeverSlowerForATransformer) {
  const Graph graph = synthetic_transformer(4);
  const int64_t most = plain_peak(graph);
  double before = 1e300;
  for (int permille = 300; permille <= 1010; permille += 13) {
    const Answer answer = solve(graph, most / 1000 * permille);
    if (!answer.plan) continue;
    EXPECT_LE(answer.plan->seconds, before) << permille;
    before = answer.plan->seconds;
  }
}

TEST(Solve, ALargerBudgetIsNeverSlowerForAResnetCloseToItsSmallest) {
  const Graph graph = synthetic_resnet(2);
  const int64_t most = plain_peak(graph), least = smallest(graph).peak_bytes;
  double before = 1e300;
  for (int64_t budget = least; budget < least + most / 10; budget += most / 700) {
    const Answer answer = solve(graph, budget);
    ASSERT_TRUE(answer.plan.has_value()) << budget;
    EXPECT_LE(answer.plan->seconds, before) << budget;
    before = answer.plan->seconds;
  }
}

TEST(Solve, AnInfeasibleBudgetGivesTheSmallestAndThatIsFeasible) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Graph graph = synthetic_random(seed, 5 + static_cast<int>(seed % 12));
    const Answer none = solve(graph, 1);
    ASSERT_FALSE(none.plan.has_value());
    EXPECT_EQ(none.smallest_at_peak.total(), none.smallest_bytes);
    const Answer answer = solve(graph, none.smallest_bytes);
    ASSERT_TRUE(answer.plan.has_value()) << "seed " << seed;
    EXPECT_NO_THROW(verify(*answer.plan, graph)) << "seed " << seed;
  }
}

TEST(Solve, ThePlainPeakNeedsNoRebuilding) {
  const Graph graph = synthetic_transformer(3);
  const Answer answer = solve(graph, plain_peak(graph));
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_EQ(answer.plan->replay_seconds, 0);
  EXPECT_EQ(answer.plan->gap(), 0);
}

TEST(Solve, TheSameGraphGivesTheSamePlan) {
  const Graph graph = synthetic_transformer(3);
  const int64_t budget = plain_peak(graph) / 2;
  EXPECT_EQ(solve(graph, budget).plan->choices, solve(graph, budget).plan->choices);
}

TEST(Solve, AGraphOfNothingHasAPlan) {
  const Graph graph;
  const Answer answer = solve(graph, 0);
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_NO_THROW(verify(*answer.plan, graph));
}

TEST(Solve, AnUnknownStrategyIsTheCallersMistake) {
  EXPECT_THROW(solve(synthetic_transformer(1), 1, {"luck"}), UsageError);
}

TEST(Solve, IsWithinTwoPercentOfTheBestOfAllPlansOfTinyGraphs) {
  int budgets = 0, equal = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Graph graph = synthetic_random(seed, 4);
    const auto all = try_all(graph);
    if (!all) continue;
    Planner planner(graph);
    std::set<int64_t> peaks;
    for (const Tried& t : *all) peaks.insert(t.peak_bytes);
    for (const int64_t budget : peaks) {
      ++budgets;
      const Answer answer = planner.solve(budget);
      // Below what rebuilding everything each time takes, a plan is luck.
      if (!answer.plan && budget < answer.smallest_bytes) continue;
      ASSERT_TRUE(answer.plan.has_value()) << "seed " << seed << " budget " << budget;
      const double best = *best_of(*all, budget);
      EXPECT_LE(answer.plan->replay_seconds, best + 0.02 * graph.seconds) << "seed " << seed << " budget " << budget;
      equal += answer.plan->replay_seconds <= best + 1e-9;
    }
  }
  EXPECT_GT(budgets, 300);
  EXPECT_GT(equal, budgets * 95 / 100);
}

// To rebuild each value from the beginning would take the square of the chain's length.
TEST(Solve, TheSmallestBudgetOfALongChainHasAPlan) {
  const Graph graph = synthetic_chain(3500);
  const Outcome least = smallest(graph);
  EXPECT_LT(least.peak_bytes, plain(graph).peak_bytes / 2);
  EXPECT_EQ(least.event_peaks.size(), graph.events.size());
  EXPECT_TRUE(solve(graph, least.peak_bytes).plan.has_value());
}

}  // namespace
}  // namespace retrace::plan
