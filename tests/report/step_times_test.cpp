#include "report/step_times.h"

#include <gtest/gtest.h>

#include "report/hand_trace.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

TEST(StepTimes, EndWithTheStep) {
  const plan::Graph graph = make_hand_net().graph;
  const StepTimes times(graph);
  EXPECT_NEAR(times.end(), graph.seconds, 1e-12);
  EXPECT_EQ(times.events(), graph.events.size());
  const double forward = 4e-3 + 4 * 10e-3;
  EXPECT_NEAR(times.begin(first_unpack(graph)), forward, 1e-12);
}

TEST(StepTimes, WithoutOperatorsOfBackwardTheRestIsSharedByWhatItAsksFor) {
  const plan::Graph graph = plan::synthetic_transformer(2);
  ASSERT_TRUE(graph.backward_ops.empty());
  const StepTimes times(graph);
  EXPECT_NEAR(times.end(), graph.seconds, 1e-9);
  double forward = 0;
  for (const plan::Op& op : graph.ops) forward += op.seconds;
  EXPECT_NEAR(times.begin(first_unpack(graph)), forward, 1e-9);
  EXPECT_GT(times.duration(first_unpack(graph)), 0);
}

TEST(StepTimes, RebuildingMakesAnEventLonger) {
  const plan::Graph graph = make_hand_net().graph;
  std::vector<double> rebuilding(graph.events.size());
  rebuilding[first_unpack(graph)] = 0.5;
  const StepTimes plain(graph), longer(graph, rebuilding);
  EXPECT_NEAR(longer.end(), plain.end() + 0.5, 1e-12);
  EXPECT_NEAR(longer.duration(first_unpack(graph)), plain.duration(first_unpack(graph)) + 0.5, 1e-12);
}

TEST(StepTimes, AverageIsOverTimeAndNotOverEvents) {
  plan::Graph graph;
  for (const double seconds : {1.0, 3.0}) {
    plan::Op op;
    op.seconds = seconds;
    graph.events.push_back({plan::EventKind::op, static_cast<int32_t>(graph.ops.size()), 0, 0, 0});
    graph.ops.push_back(op);
    graph.seconds += seconds;
  }
  EXPECT_DOUBLE_EQ(StepTimes(graph).average({100, 20}), (1 * 100 + 3 * 20) / 4.0);
  EXPECT_DOUBLE_EQ(StepTimes(graph).average({}), 0);
}

}  // namespace
}  // namespace retrace::report
