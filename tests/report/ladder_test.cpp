// Every rung of the ladder is a plan that keeps its budget, and a larger budget is never slower.
#include "report/ladder.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include <retrace/errors.h>

#include "report/parallel.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

TEST(Ladder, RisesInBudgetAndFallsInTime) {
  for (const plan::Graph& graph : {plan::synthetic_transformer(4), plan::synthetic_resnet(1)}) {
    int told = 0;
    const std::vector<BudgetPlan> rungs = ladder(graph, 8, [&](const std::string&) { ++told; });
    EXPECT_EQ(told, 9);
    ASSERT_GE(rungs.size(), 4U);
    EXPECT_EQ(rungs.back().plan.budget_bytes, plan::plain(graph).peak_bytes);
    EXPECT_EQ(rungs.back().plan.replay_seconds, 0);
    EXPECT_LT(rungs.front().plan.peak_bytes, rungs.back().plan.peak_bytes);
    for (size_t i = 0; i < rungs.size(); ++i) {
      plan::verify(rungs[i].plan, *rungs[i].graph);
      if (i == 0) continue;
      EXPECT_GT(rungs[i].plan.budget_bytes, rungs[i - 1].plan.budget_bytes);
      EXPECT_LE(rungs[i].plan.replay_seconds, rungs[i - 1].plan.replay_seconds);
    }
  }
}

TEST(Ladder, IsTheSameEveryTime) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  const auto a = ladder(graph, 5, [](const std::string&) {}), b = ladder(graph, 5, [](const std::string&) {});
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].plan.choices, b[i].plan.choices);
}

TEST(Ladder, OfAStepThatAllocatesNothingIsHarmless) {
  const plan::Graph graph;
  for (const BudgetPlan& rung : ladder(graph, 4, [](const std::string&) {})) EXPECT_EQ(rung.plan.replay_seconds, 0);
}

// Of a long step the smallest budget is what a named policy comes to, and a search of a few seconds may find no plan
// there.
TEST(Ladder, OfALongStepBeginsAtTheSmallestBudgetAndIsTheSameEveryTime) {
  const plan::Graph graph = plan::synthetic_transformer(220);
  ASSERT_TRUE(is_large(graph)) << graph.ops.size();
  int told = 0;
  const auto rungs = ladder(graph, 3, [&](const std::string&) { ++told; });
  EXPECT_EQ(told, 4);
  ASSERT_EQ(rungs.size(), 3U);
  BudgetPlans plans(graph);
  EXPECT_EQ(rungs.front().plan.budget_bytes, plans.bearable_bytes());
  EXPECT_EQ(rungs.front().plan.budget_bytes, plans.smallest().peak_bytes) << "the smallest that is told has a plan";
  const auto again = ladder(graph, 3, [](const std::string&) {});
  for (size_t i = 0; i < rungs.size(); ++i) {
    plan::verify(rungs[i].plan, *rungs[i].graph);
    EXPECT_LE(rungs[i].plan.peak_bytes, rungs[i].plan.budget_bytes);
    EXPECT_EQ(rungs[i].plan.choices, again[i].plan.choices);
  }
}

TEST(InParallel, EveryPieceIsDoneOnceAndAnExceptionArrives) {
  std::vector<std::atomic<int>> done(100);
  in_parallel(
      done.size(), [&](size_t i) { ++done[i]; }, 4);
  for (const auto& times : done) EXPECT_EQ(times, 1);
  in_parallel(0, [](size_t) { FAIL(); });
  EXPECT_THROW(in_parallel(
                   8,
                   [](size_t i) {
                     if (i == 3) throw UsageError("no");
                   },
                   4),
               UsageError);
}

TEST(GraphOf, FindsTheRootsAPlanDoesWithout) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  for (const BudgetPlan& rung : ladder(graph, 4, [](const std::string&) {}))
    EXPECT_EQ(plan::Simulator(graph_of(rung.plan, graph)).run(rung.plan.choices).peak_bytes, rung.plan.peak_bytes);
}

TEST(GraphOf, RefusesThePlanOfAnotherTape) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  const auto rungs = ladder(graph, 3, [](const std::string&) {});
  EXPECT_THROW(graph_of(rungs.front().plan, plan::synthetic_transformer(2)), UsageError);
}

}  // namespace
}  // namespace retrace::report
