// When events happen adds up to what the step takes.
#include "report/clock.h"

#include <gtest/gtest.h>

#include "report/scenario.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

TEST(StepClock, EndsWhenTheStepAndItsRebuildingDo) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  for (const Policy& policy : {keep_all(), every(1), recompute_all()}) {
    const Scenario scenario = under_policy(graph, policy);
    const StepClock clock(graph, scenario.history);
    EXPECT_NEAR(clock.end(), graph.seconds + scenario.outcome.replay_seconds, 1e-9) << policy.name();
  }
}

TEST(StepClock, NeverGoesBack) {
  const plan::Graph graph = plan::synthetic_resnet(1);
  const StepClock clock(graph, under_policy(graph, every(1)).history);
  for (size_t e = 0; e < graph.events.size(); ++e) {
    ASSERT_LE(clock.begin(e), clock.ready(e));
    ASSERT_LE(clock.ready(e), clock.begin(e + 1));
  }
}

TEST(StepClock, TakesTheTimesOfBackwardWhereTheTapeHasThem) {
  plan::Graph graph = plan::synthetic_transformer(1);
  const plan::History history = under_policy(graph, keep_all()).history;
  const size_t first = StepClock(graph, history).first_backward();
  double forward_seconds = 0;
  for (const plan::Op& op : graph.ops) forward_seconds += op.seconds;
  graph.backward_ops = {{"aten::mm", 3 * forward_seconds, static_cast<int32_t>(first)}};
  graph.seconds = 4 * forward_seconds;
  const StepClock clock(graph, history);
  EXPECT_NEAR(clock.begin(first), forward_seconds, 1e-9);
  EXPECT_NEAR(clock.begin(first + 1), graph.seconds, 1e-9);
  EXPECT_DOUBLE_EQ(clock.stretch(), 1);
}

TEST(StepClock, OfAnEmptyStepEndsAtOnce) {
  const plan::Graph graph;
  EXPECT_EQ(StepClock(graph, plan::History()).end(), 0);
}

}  // namespace
}  // namespace retrace::report
