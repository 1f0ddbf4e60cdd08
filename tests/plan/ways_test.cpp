// A way to hold a value that nothing in Retrace has heard of goes through planning, files and reports by its numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "plan/brute.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

// Takes no byte of the device and so many seconds per byte, each way.
void allow_outside(Graph& graph, double seconds_per_byte) {
  for (Value& v : graph.values) {
    const double seconds = seconds_per_byte * static_cast<double>(v.bytes);
    v.ways.push_back({.kind = "outside", .bytes = 0, .store_seconds = seconds, .load_seconds = seconds});
  }
}

const HeldValues* find(const std::vector<HeldValues>& held, const std::string& kind) {
  const auto row = std::find_if(held.begin(), held.end(), [&](const HeldValues& h) { return h.kind == kind; });
  return row == held.end() ? nullptr : &*row;
}

class Outside : public testing::Test {
 protected:
  Outside() {
    allow_outside(graph_, 1e-11);
    plain_ = Simulator(graph_).run(keep_saved(graph_)).peak_bytes;
  }
  Graph graph_ = synthetic_transformer(3);
  int64_t plain_ = 0;
};

TEST_F(Outside, IsPlannedWithVerifiedAndShown) {
  const Answer answer = solve(graph_, plain_ / 2);
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_NO_THROW(verify(*answer.plan, graph_));
  const PlanSummary summary = summarize(*answer.plan, graph_);
  const HeldValues* const outside = find(summary.held, "outside");
  ASSERT_NE(outside, nullptr);
  EXPECT_GT(outside->values, 0);
  EXPECT_EQ(outside->bytes, 0);
  EXPECT_GT(outside->plain_bytes, 0);
  EXPECT_FALSE(outside->lossy);
  EXPECT_EQ(summary.held.front().kind, "as it is");
  EXPECT_EQ(summary.values_lossy, 0);
}

TEST_F(Outside, IsUsedOnlyAsFarAsItPays) {
  const Graph without = synthetic_transformer(3);
  Graph slow = without;
  allow_outside(slow, 1e-3);
  const int64_t budget = plain_ / 2;
  const Answer fast = solve(graph_, budget), plain = solve(without, budget), never = solve(slow, budget);
  EXPECT_LT(fast.plan->replay_seconds, plain.plan->replay_seconds / 2);
  EXPECT_EQ(find(never.plan->held, "outside"), nullptr);
  EXPECT_LE(never.plan->replay_seconds, plain.plan->replay_seconds * 1.01);
}

TEST_F(Outside, IsSimulatedByItsNumbers) {
  const Choices kept = keep_saved(graph_);
  Choices outside = kept;
  const std::vector<bool> can = keepable(graph_);
  double seconds = 0;
  for (size_t v = 0; v < outside.size(); ++v) {
    if (!outside[v].holds() || !can[v]) continue;
    const int way = graph_.values[v].way_count() - 1;
    outside[v] = Choice::hold(way);
    seconds += graph_.values[v].ways.back().store_seconds;
  }
  Simulator simulator(graph_);
  const Outcome a = simulator.run(kept), b = simulator.run(outside);
  EXPECT_LT(b.peak_bytes, a.peak_bytes / 2);
  EXPECT_EQ(b.kept_bytes, 0);
  EXPECT_EQ(b.ops_replayed, 0);
  EXPECT_GE(b.replay_seconds, seconds);  // each is loaded at most as often as it is asked for
}

TEST_F(Outside, GoesThroughTapeAndPlanFiles) {
  const Plan plan = *solve(graph_, plain_ / 2).plan;
  const Graph read = from_bytes(to_bytes(graph_), "run.tape");
  const Plan read_plan = from_json(to_json(plan), "run.plan");
  EXPECT_NO_THROW(verify(read_plan, read));
  EXPECT_EQ(read_plan.choices, plan.choices);
  EXPECT_EQ(summarize(read_plan, read).held.size(), plan.held.size());
  EXPECT_NE(to_json(plan).find("\"kind\": \"outside\""), std::string::npos);
}

// Of small random graphs, some of whose values have bits to begin with.
Graph with_two_more_ways(uint32_t seed, int ops) {
  Graph graph = synthetic_random(seed, ops);
  allow_outside(graph, 1e-6);
  for (Value& v : graph.values) v.ways.push_back({"narrow", v.bytes / 2, 1e-4, 1e-4, false});
  return graph;
}

TEST(Ways, TheBoundIsNeverAboveAnyChoices) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph graph = with_two_more_ways(seed, 3 + static_cast<int>(seed % 23));
    Simulator simulator(graph);
    for (int i = 0; i < 6; ++i) {
      Choices choices;
      for (const Value& v : graph.values) {
        const std::vector<Choice> all = all_choices(v.way_count());
        choices.push_back(all[random() % all.size()]);
      }
      const Outcome outcome = simulator.run(choices);
      EXPECT_LE(Planner(graph).lower_bound(outcome.peak_bytes), outcome.replay_seconds + 1e-9) << "seed " << seed;
    }
  }
}

TEST(Ways, AnIncrementalRunSaysWhatAWholeOneSays) {
  std::mt19937 random(2);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = with_two_more_ways(seed, 3 + static_cast<int>(seed % 23));
    Simulator whole(graph), near(graph);
    Choices choices(graph.values.size());
    for (int i = 0; i < 30; ++i) {
      for (int n = 0; n < 3; ++n) choices[random() % choices.size()] = all_choices(4)[random() % 6];
      const Outcome a = whole.run(choices, true), b = i % 4 == 0 ? near.rebase(choices) : near.run_incremental(choices);
      ASSERT_EQ(a.replay_seconds, b.replay_seconds);
      ASSERT_EQ(a.event_peaks, b.event_peaks);
    }
  }
}

TEST(Ways, PlansAreWithinTwoPercentOfTheBestOfAllPlansOfTinyGraphs) {
  int budgets = 0, equal = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = with_two_more_ways(seed, 2);
    const auto all = try_all(graph, 20'000);
    if (!all) continue;
    Planner planner(graph);
    std::set<int64_t> peaks;
    for (const Tried& t : *all) peaks.insert(t.peak_bytes);
    for (const int64_t budget : peaks) {
      ++budgets;
      const Answer answer = planner.solve(budget);
      if (!answer.plan && budget < answer.smallest_bytes) continue;
      ASSERT_TRUE(answer.plan.has_value()) << "seed " << seed << " budget " << budget;
      const double best = *best_of(*all, budget);
      EXPECT_LE(answer.plan->replay_seconds, best + 0.02 * graph.seconds) << "seed " << seed << " budget " << budget;
      equal += answer.plan->replay_seconds <= best + 1e-9;
    }
  }
  EXPECT_GT(budgets, 200);
  EXPECT_GT(equal, budgets * 95 / 100);
}

TEST(Ways, ALossyOneIsCountedByItsNumbers) {
  Graph graph = synthetic_transformer(2);
  for (Value& v : graph.values) v.ways.push_back({"rounded", v.bytes / 2, 1e-9, 1e-9, true});
  const int64_t plain = Simulator(graph).run(keep_saved(graph)).peak_bytes;
  const Answer answer = solve(graph, plain / 100 * 70);
  ASSERT_TRUE(answer.plan.has_value());
  EXPECT_NO_THROW(verify(*answer.plan, graph));
  ASSERT_NE(find(answer.plan->held, "rounded"), nullptr);
  EXPECT_EQ(answer.plan->lossy_values(), find(answer.plan->held, "rounded")->values);
}

}  // namespace
}  // namespace retrace::plan
