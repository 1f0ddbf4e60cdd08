// A step that evicts, told from its graph.
#include <gtest/gtest.h>

#include "plan/simulate/eviction_simulation.h"
#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"
#include "synthetic/step.h"

namespace retrace::plan {
namespace {

// Where no replay has to begin further back, which only the runtime can.
TEST(EvictionSimulation, KeepsTheBudgetAndRebuildsMoreTheLowerItIs) {
  for (const Graph& graph : {synthetic_transformer(8), synthetic_resnet(2), synthetic_chain(300)}) {
    const int64_t plain_bytes = plain(graph).peak_bytes, least_bytes = smallest(graph).peak_bytes;
    EvictionSimulation eviction(graph);
    double before = 0;
    for (const int percent : {100, 80, 60, 40}) {
      const int64_t budget = least_bytes + (plain_bytes - least_bytes) * percent / 100;
      const Outcome outcome = eviction.run(keep_saved(graph), budget).outcome;
      EXPECT_LE(outcome.peak_bytes, budget);
      EXPECT_EQ(outcome.replay_seconds == 0, percent == 100);
      EXPECT_GE(outcome.replay_seconds, before);
      before = outcome.replay_seconds;
    }
  }
}

TEST(EvictionSimulation, WhatItHoldsInTheEndIsAPlanOfTheSameTimeWhereNothingIsForgottenTwice) {
  const Graph graph = synthetic_transformer(8);
  const auto evicted = EvictionSimulation(graph).run(keep_saved(graph), plain(graph).peak_bytes * 7 / 10);
  EXPECT_NO_THROW(verify(evicted.choices, graph));
  EXPECT_NEAR(Simulator(graph).run(evicted.choices).replay_seconds, evicted.outcome.replay_seconds, 1e-9);
}

// The cheapest were remembered when memory first ran short. Later the program lets go of something far cheaper.
TEST(EvictionSimulation, SeesWhatTheProgramLetsGoOfMeanwhile) {
  constexpr int64_t kBytes = 1000;
  constexpr double kCheap = 1e-6, kExpensive = 1e-3;
  SyntheticStep step;
  const ValueId x = step.input(kBytes);
  const auto make = [&](double seconds, bool is_released = true) {
    const ValueId v = step.run("op", seconds, {x}, {kBytes});
    step.node({v}, seconds, 0, 0);
    if (is_released) step.release(v);
    return v;
  };
  make(kCheap);
  const ValueId in_hand = make(kCheap, false);
  for (int i = 0; i < 4; ++i) make(kExpensive);
  make(kExpensive);  // the first that is too much
  step.release(in_hand);
  make(kExpensive);
  const Graph graph = step.finish();
  const auto evicted = EvictionSimulation(graph).run(keep_saved(graph), graph.start_bytes + 6 * kBytes);
  EXPECT_LT(evicted.outcome.replay_seconds, kExpensive);
}

// By then long chains are gone. To walk them to their ends for every value took four times the events.
TEST(EvictionSimulation, LooksNoFurtherThanTellsThatSomethingElseGoesFirst) {
  const Graph graph = synthetic_chain(3000);
  const int64_t plain_bytes = plain(graph).peak_bytes, least_bytes = smallest(graph).peak_bytes;
  Effort effort;
  EvictionSimulation(graph, &effort).run(keep_saved(graph), least_bytes + (plain_bytes - least_bytes) * 4 / 10);
  EXPECT_LT(effort.spent(), 3 * static_cast<int64_t>(graph.events.size()));
}

TEST(EvictionSimulation, BecomesAPlanThatIsNoSlower) {
  const Graph graph = synthetic_transformer(8);
  const int64_t budget = plain(graph).peak_bytes * 6 / 10;
  const Answer alone = solve(graph, budget, {.strategy = "from_eviction"});
  ASSERT_TRUE(alone.plan.has_value());
  EXPECT_NO_THROW(verify(*alone.plan, graph));
  EXPECT_LE(alone.plan->replay_seconds,
            EvictionSimulation(graph).run(keep_saved(graph), budget).outcome.replay_seconds);
}

}  // namespace
}  // namespace retrace::plan
