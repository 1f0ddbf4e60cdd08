// The smallest budget at a bearable price.
#include <gtest/gtest.h>

#include "plan/solve/bearable.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

int64_t plain_peak(const Graph& graph) { return Simulator(graph).run(keep_saved(graph)).peak_bytes; }

TEST(Bearable, ASlightlyLargerBudgetIsNotTwiceAsFast) {
  for (const Graph& graph : {synthetic_transformer(6), synthetic_resnet(2), synthetic_chain(200)}) {
    const Plan plan = bearable(graph);
    EXPECT_NO_THROW(verify(plan, graph));
    const auto larger = static_cast<int64_t>(static_cast<double>(plan.budget_bytes) * (1 + kSlightly));
    if (const std::optional<Plan> next = quick_solve(graph, larger)) {
      EXPECT_LE(plan.seconds, kBearable * next->seconds * 1.0001);
    }
    EXPECT_GE(plan.budget_bytes, smallest(graph).peak_bytes);
    EXPECT_LE(plan.budget_bytes, plain_peak(graph) * (1 + kSlightly));
  }
}

// A chain of equal operators: rebuilding everything each time takes as many forwards as there are operators.
TEST(Bearable, RebuildingEverythingEachTimeIsNot) {
  const Graph graph = synthetic_chain(400);
  const Outcome each_time = Simulator(graph).run(Choices(graph.values.size(), Choice::rebuild_each_time()));
  const Plan plan = bearable(graph);
  EXPECT_GT(each_time.replay_seconds, 10 * graph.seconds);
  EXPECT_LT(plan.replay_seconds, 2 * graph.seconds);
  EXPECT_LT(static_cast<double>(plan.budget_bytes), 1.25 * static_cast<double>(each_time.peak_bytes));
}

TEST(Bearable, ByEvictionItIsKeptAndASlightlyLargerBudgetIsNotTwiceAsFast) {
  for (const Graph& graph : {synthetic_transformer(6), synthetic_resnet(2), synthetic_chain(200)}) {
    const int64_t budget_bytes = bearable_by_eviction(graph);
    const Outcome its = by_eviction(graph, budget_bytes);
    EXPECT_LE(its.peak_bytes, budget_bytes);
    const Outcome next = by_eviction(graph, static_cast<int64_t>(static_cast<double>(budget_bytes) * (1 + kSlightly)));
    EXPECT_LE(graph.seconds + its.replay_seconds, kBearable * (graph.seconds + next.replay_seconds) * 1.0001);
    EXPECT_LT(budget_bytes, plain_peak(graph) * 3 / 4);
  }
}

// Of a step of a few milliseconds.
TEST(Bearable, ByEvictionItIsFoundInLittleTime) {
  const Graph graph = synthetic_transformer(6);
  EXPECT_EQ(bearable_by_eviction(graph, events_in(0.02)), bearable_by_eviction(graph));
}

TEST(Bearable, WithLessEffortTheBudgetIsLarger) {
  const Graph graph = synthetic_chain(400);
  EXPECT_GT(bearable_by_eviction(graph, 1), bearable_by_eviction(graph));
}

}  // namespace
}  // namespace retrace::plan
