// Plan quality is a gate of its own: figures that a change to the planner must not lose.
#include <gtest/gtest.h>

#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

struct Expected {
  int percent;     // of the plain peak
  double seconds;  // of rebuilding, at most, as a share of the step
  double gap;      // at most
};

void expect(const Graph& graph, const std::vector<Expected>& table) {
  const int64_t plain = Simulator(graph).run(keep_saved(graph)).peak_bytes;
  for (const Expected& row : table) {
    const Answer answer = solve(graph, plain / 100 * row.percent);
    ASSERT_TRUE(answer.plan.has_value()) << row.percent;
    EXPECT_LE(answer.plan->replay_seconds / graph.seconds, row.seconds) << row.percent;
    EXPECT_LE(answer.plan->gap(), row.gap) << row.percent;
  }
}

TEST(Quality, ATransformerOfEightLayers) {
  expect(synthetic_transformer(8), {{90, 0.008, 0.001},
                                    {75, 0.021, 0.002},
                                    {60, 0.042, 0.002},
                                    {50, 0.070, 0.005},
                                    {40, 0.133, 0.020},
                                    {35, 0.172, 0.025},
                                    {32, 0.220, 0.045}});
}

TEST(Quality, ATransformerOfEightyLayers) {
  expect(synthetic_transformer(80), {{75, 0.020, 0.001}, {50, 0.064, 0.002}, {30, 0.175, 0.010}});
}

TEST(Quality, AResnet) {
  expect(synthetic_resnet(4), {{90, 0.016, 0.005}, {75, 0.056, 0.010}, {70, 0.082, 0.020}, {66, 0.150, 0.060}});
}

// Large activations first, blocks that overwrite what they read, and gradients that have filled up when backward comes
// to the former: a replay there hardly fits. A percent above the smallest budget, 66.1 percent.
TEST(Quality, AResnetCloseToTheSmallestBudget) {
  expect(synthetic_resnet(4), {{67, 0.115, 0.035}, {68, 0.105, 0.030}});
}

TEST(Quality, AChainOfAThousandValues) {
  expect(synthetic_chain(1000), {{75, 0.030, 0.010}, {50, 0.080, 0.010}, {30, 0.150, 0.015}});
}

// Weight gradients fill up as backward proceeds: what it visits first may keep more.
TEST(Quality, LayersThatBackwardVisitsFirstKeepMore) {
  const Graph graph = synthetic_resnet(4);
  const int64_t plain = Simulator(graph).run(keep_saved(graph)).peak_bytes;
  const Plan plan = *solve(graph, plain / 100 * 75).plan;
  int64_t early = 0, late = 0, early_saved = 0, late_saved = 0;
  const Lifetimes lifetimes(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!lifetimes.asked(static_cast<ValueId>(v))) continue;
    const bool is_late = v > graph.values.size() / 2;
    (is_late ? late_saved : early_saved) += graph.values[v].bytes;
    if (plan.choices[v] == Choice::keep()) (is_late ? late : early) += graph.values[v].bytes;
  }
  EXPECT_GT(late * early_saved, early * late_saved);
}

}  // namespace
}  // namespace retrace::plan
