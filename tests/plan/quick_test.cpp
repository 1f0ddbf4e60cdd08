// What quick_solve() promises: a plan that fits, in counted effort.
#include <gtest/gtest.h>

#include "plan/graph/lifetimes.h"
#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

int64_t plain_peak(const Graph& graph) { return Simulator(graph).run(keep_saved(graph)).peak_bytes; }

// So much of the way from the smallest budget to the plain peak.
int64_t between(const Graph& graph, int percent) {
  const int64_t least = smallest(graph).peak_bytes;
  return least + (plain_peak(graph) - least) / 100 * percent;
}

TEST(Quick, APlanFitsAndPassesVerify) {
  for (const Graph& graph : {synthetic_transformer(8), synthetic_resnet(2), synthetic_chain(300)}) {
    for (const int percent : {5, 10, 30, 90}) {
      const int64_t budget = between(graph, percent);
      const std::optional<Plan> plan = quick_solve(graph, budget);
      ASSERT_TRUE(plan.has_value()) << percent;
      EXPECT_LE(plan->peak_bytes, budget);
      EXPECT_GE(plan->gap(), 0);
      EXPECT_NO_THROW(verify(*plan, graph)) << percent;
    }
  }
}

TEST(Quick, APlanPassesVerifyOnRandomGraphs) {
  int plans = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = synthetic_random(seed, 5 + static_cast<int>(seed % 20));
    const std::optional<Plan> plan = quick_solve(graph, plain_peak(graph) * 85 / 100);
    if (!plan) continue;
    ++plans;
    EXPECT_NO_THROW(verify(*plan, graph)) << "seed " << seed;
  }
  EXPECT_GT(plans, 50);
}

// As shares of the step, beside what the whole search finds.
TEST(Quick, IsCloseToTheWholeSearch) {
  const Graph transformer = synthetic_transformer(8), resnet = synthetic_resnet(4), chain = synthetic_chain(1000);
  for (const Graph* graph : {&transformer, &resnet, &chain}) {
    for (const int percent : {80, 50, 20}) {
      const int64_t budget = between(*graph, percent);
      const double quick = quick_solve(*graph, budget)->replay_seconds;
      EXPECT_LE(quick, solve(*graph, budget).plan->replay_seconds + 0.04 * graph->seconds) << percent;
    }
  }
}

TEST(Quick, WhatItTakesGrowsWithTheGraphAndNoFaster) {
  const auto effort = [](int layers) {
    const Graph graph = synthetic_transformer(layers);
    Effort spent;
    EXPECT_TRUE(quick_solve(graph, plain_peak(graph) * 60 / 100, spent).has_value());
    return static_cast<double>(spent.spent()) / static_cast<double>(graph.events.size());
  };
  EXPECT_LT(effort(8), 250);  // runs through the whole graph, or as much work
  EXPECT_LT(effort(80), 250);
}

TEST(Quick, ThePlainPeakNeedsNoRebuilding) {
  const Graph graph = synthetic_transformer(3);
  const std::optional<Plan> plan = quick_solve(graph, plain_peak(graph));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->replay_seconds, 0);
}

TEST(Quick, NothingThatFitsWithinTheEffortIsAnAnswer) {
  const Graph graph = synthetic_transformer(8);
  EXPECT_FALSE(quick_solve(graph, plain_peak(graph) / 2, 1).has_value());
  EXPECT_FALSE(quick_solve(graph, 1).has_value());
}

TEST(Quick, LessThanIsLiveWhateverIsKeptIsRefusedAtOnce) {
  const Graph graph = synthetic_transformer(8);
  const int64_t always_live = Lifetimes(graph).most_base_bytes();
  EXPECT_LE(always_live, smallest(graph).peak_bytes);
  Effort spent;
  EXPECT_FALSE(quick_solve(graph, always_live - 1, spent).has_value());
  EXPECT_LT(spent.spent(), 3 * static_cast<int64_t>(graph.events.size()));
}

TEST(Quick, TheSameEffortGivesTheSamePlan) {
  const Graph graph = synthetic_transformer(4);
  const int64_t budget = plain_peak(graph) / 2;
  for (const int64_t effort : {int64_t{20'000}, kUnlimited}) {
    const std::optional<Plan> a = quick_solve(graph, budget, effort), b = quick_solve(graph, budget, effort);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(a->choices, b->choices);
  }
}

TEST(Quick, AGraphOfNothingHasAPlan) { EXPECT_TRUE(quick_solve(Graph{}, 0).has_value()); }

}  // namespace
}  // namespace retrace::plan
