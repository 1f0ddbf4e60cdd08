// A plan for one step, followed by a step that is like it.
#include <gtest/gtest.h>

#include "plan/solve/carry_over.h"
#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"
#include "synthetic/step.h"

namespace retrace::plan {
namespace {

int64_t plain_peak(const Graph& graph) { return Simulator(graph).run(keep_saved(graph)).peak_bytes; }

Graph doubled(Graph graph) {
  for (Value& v : graph.values) {
    v.bytes *= 2;
    for (Way& way : v.ways) way.bytes *= 2;
  }
  for (Op& op : graph.ops) op.working_bytes *= 2;
  for (Event& e : graph.events) {
    e.other_bytes *= 2;
    e.other_peak *= 2;
  }
  return graph;
}

TEST(CarryOver, TheSameGraphGetsTheSamePlan) {
  const Graph graph = synthetic_transformer(4);
  const Plan plan = *solve(graph, plain_peak(graph) / 2).plan;
  const Outcome outcome = Simulator(graph).run(carry_over(plan.choices, graph, graph));
  EXPECT_EQ(outcome.peak_bytes, plan.peak_bytes);
  EXPECT_EQ(outcome.replay_seconds, plan.replay_seconds);
}

TEST(CarryOver, OtherSizesTakeChoicesByPosition) {
  const Graph graph = synthetic_transformer(4), larger = doubled(graph);
  const Plan plan = *solve(graph, plain_peak(graph) / 2).plan;
  const Outcome outcome = Simulator(larger).run(carry_over(plan.choices, graph, larger));
  EXPECT_EQ(outcome.peak_bytes, 2 * plan.peak_bytes);
  EXPECT_EQ(outcome.replay_seconds, plan.replay_seconds);
}

// Of its own plan the other length would rebuild about as much, in as large a share of its memory.
TEST(CarryOver, AnotherLengthIsPlannedAlmostAsWell) {
  const Graph graph = synthetic_transformer(12);
  const Plan plan = *solve(graph, plain_peak(graph) * 60 / 100).plan;
  for (const int layers : {9, 15}) {
    const Graph other = synthetic_transformer(layers);
    const Choices choices = carry_over(plan.choices, graph, other);
    EXPECT_NO_THROW(verify(choices, other));
    const Outcome outcome = Simulator(other).run(choices);
    EXPECT_LT(outcome.peak_bytes, plain_peak(other) * 75 / 100) << layers;
    EXPECT_LT(outcome.replay_seconds / other.seconds, 0.10) << layers;
  }
}

Graph with_branch(bool taken) {
  SyntheticStep step;
  ValueId x = step.run("first", 1e-3, {step.input(1000)}, {1000});
  for (int i = 0; i < 4; ++i) {
    const ValueId before = x;
    x = step.run("layer", 1e-3, {before}, {1000});
    step.node({before}, 1e-3, 1000, 1000);
    step.release(before);
    if (i != 1 || !taken) continue;
    const ValueId here = x;
    x = step.run("branch", 1e-3, {here}, {1000});
    step.node({here}, 1e-3, 1000, 1000);
    step.release(here);
  }
  step.release_later(x);
  return step.finish();
}

TEST(CarryOver, WhatIsCommonBeforeAndAfterABranchIsUsed) {
  const Graph without_it = with_branch(false), with_it = with_branch(true);
  const auto made_by = [](const Graph& graph, size_t op) { return at(graph.ops[op].fresh.front()); };
  Choices choices(without_it.values.size());
  choices[made_by(without_it, 1)] = choices[made_by(without_it, 4)] = Choice::rebuild_each_time();
  const Choices carried = carry_over(choices, without_it, with_it);
  EXPECT_EQ(carried[made_by(with_it, 1)], Choice::rebuild_each_time());  // before it
  EXPECT_EQ(carried[made_by(with_it, 3)], Choice::keep());               // the branch: saved, and like nothing else
  EXPECT_EQ(carried[made_by(with_it, 4)], Choice::rebuild());
  EXPECT_EQ(carried[made_by(with_it, 5)], Choice::rebuild_each_time());  // after it
  const Choices back = carry_over(carried, with_it, without_it);
  EXPECT_EQ(back, choices);
}

}  // namespace
}  // namespace retrace::plan
