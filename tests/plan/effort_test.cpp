// How much work the whole search does, and that it stops when it is asked to. In counted events: no clock.
#include <gtest/gtest.h>

#include <thread>

#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

int64_t plain_peak(const Graph& graph) { return Simulator(graph).run(keep_saved(graph)).peak_bytes; }

// The same step, each of whose seconds takes `factor` seconds.
Graph times(Graph graph, double factor) {
  graph.seconds *= factor;
  for (Op& op : graph.ops) {
    op.seconds *= factor;
    op.shortcut_seconds *= factor;
  }
  for (Value& v : graph.values) {
    for (Way& way : v.ways) {
      way.store_seconds *= factor;
      way.load_seconds *= factor;
    }
  }
  return graph;
}

TEST(Effort, AFastStepIsPlannedWithLess) {
  const Graph slow = synthetic_transformer(4), fast = times(slow, 1e-3);
  const int64_t budget = plain_peak(slow) * 40 / 100;
  const Answer of_slow = solve(slow, budget), of_fast = solve(fast, budget);
  ASSERT_TRUE(of_slow.plan && of_fast.plan);
  EXPECT_LT(of_fast.effort, of_slow.effort / 2);
}

TEST(Effort, LooserBudgetsDoNotTakeMore) {
  const Graph graph = synthetic_transformer(8);
  const int64_t plain = plain_peak(graph);
  EXPECT_LT(solve(graph, plain / 100 * 95).effort, solve(graph, plain / 100 * 35).effort);
}

TEST(Effort, AStepOfAThousandthOfASecondIsPlannedInAFewThousandths) {
  Graph graph = synthetic_chain(30);
  graph = times(graph, 1e-3 / graph.seconds);
  for (const int percent : {90, 80, 70, 60, 50}) {
    EXPECT_LT(solve(graph, plain_peak(graph) / 100 * percent).effort, events_in(0.02)) << percent;
  }
}

TEST(Effort, WhatTheCallerAllowsIsNotExceededByMuch) {
  const Graph graph = synthetic_transformer(8);
  const int64_t budget = plain_peak(graph) * 35 / 100, whole = solve(graph, budget).effort;
  const Answer answer = solve(graph, budget, {.most_effort = whole / 10});
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_NO_THROW(verify(*answer.plan, graph));
  EXPECT_LT(answer.effort, whole / 3);
}

TEST(Effort, APlanThatIsKnownIsReturnedUnlessThereIsAFasterOne) {
  const Graph graph = synthetic_transformer(4);
  for (const int percent : {80, 40}) {
    const int64_t budget = plain_peak(graph) * percent / 100;
    const Plan quick = *quick_solve(graph, budget);
    const Answer without = solve(graph, budget), with = solve(graph, budget, {.known = quick.choices});
    EXPECT_LE(with.plan->seconds, quick.seconds);
    EXPECT_LE(with.plan->seconds, without.plan->seconds + 0.002 * graph.seconds);
    EXPECT_NO_THROW(verify(*with.plan, graph));
  }
  const int64_t budget = plain_peak(graph) * 80 / 100;  // where it is close to the bound
  EXPECT_LT(solve(graph, budget, {.known = quick_solve(graph, budget)->choices}).effort, solve(graph, budget).effort);
}

TEST(Stop, ASearchThatWasStoppedBeforeItBeganFindsNothing) {
  std::stop_source source;
  source.request_stop();
  const Graph graph = synthetic_transformer(8);
  const Answer answer = solve(graph, plain_peak(graph) / 2, {.stop = source.get_token()});
  EXPECT_TRUE(answer.stopped);
  EXPECT_FALSE(answer.plan.has_value());
  EXPECT_LT(answer.effort, 1000);
  EXPECT_FALSE(quick_solve(graph, plain_peak(graph) / 2, kUnlimited, source.get_token()).has_value());
}

// A search may be stopped between two strategies as well: none of them needs something to begin with.
TEST(Stop, AnyStrategyThatWasStoppedBeforeItBeganFindsNothing) {
  std::stop_source source;
  source.request_stop();
  const Graph graph = synthetic_transformer(4);
  for (const std::string& strategy : strategies()) {
    const Answer answer = solve(graph, plain_peak(graph) / 2, {.strategy = strategy, .stop = source.get_token()});
    EXPECT_TRUE(!answer.plan || answer.plan->peak_bytes <= plain_peak(graph) / 2) << strategy;
  }
}

// Many searches at once, stopped at some time or other: under ThreadSanitizer this shows what they would share.
TEST(Stop, WhatAStoppedSearchReturnsIsAPlan) {
  const Graph graph = synthetic_resnet(4);
  const int64_t budget = plain_peak(graph) * 67 / 100;
  const int64_t whole = solve(graph, budget).effort;
  std::vector<Answer> answers(4);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i](const std::stop_token& stop) { answers[i] = solve(graph, budget, {.stop = stop}); });
  }
  std::this_thread::yield();
  for (std::jthread& thread : threads) thread.request_stop();
  threads.clear();
  for (const Answer& answer : answers) {
    EXPECT_LE(answer.effort, whole);
    if (!answer.plan) continue;
    EXPECT_NO_THROW(verify(*answer.plan, graph));
  }
}

}  // namespace
}  // namespace retrace::plan
