// The tape as rows: what is saved is counted once, and waits until backward asks.
#include "report/rows.h"

#include <gtest/gtest.h>

#include "synthetic/step.h"

namespace retrace::report {
namespace {

// y = f(x); z = g(y) in place of y; w = h(z). Backward asks for z.
plan::Graph small_step() {
  plan::SyntheticStep step;
  const auto x = step.input(64);
  const auto y = step.run("f", 0.5, {x}, {100});
  const auto z = step.run_in_place("g", 0.25, y);
  const auto w = step.run("h", 0.25, {z}, {40});
  step.node({z}, 1, 40, 100);
  step.release_later(z);
  step.release_later(w);
  return step.finish();
}

std::vector<Row> rows_of(const plan::Graph& graph) { return rows(graph, StepTimes(graph)); }

TEST(Rows, CountWhatIsMadeAndWhatIsSaved) {
  const auto all = rows_of(small_step());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].bytes, 100);
  EXPECT_EQ(all[1].bytes, 0) << "in place, nothing is made";
  EXPECT_EQ(all[2].bytes, 40);
  EXPECT_EQ(all[0].saved_bytes, 0);
  EXPECT_EQ(all[1].saved_bytes, 100) << "what g left is what backward wants";
  EXPECT_EQ(all[2].saved_bytes, 0);
  EXPECT_LT(all[0].rebuild_seconds, 0);
  EXPECT_DOUBLE_EQ(all[1].rebuild_seconds, 0.75) << "f and g must run: what f made was overwritten";
}

TEST(Rows, WaitFromWhenItRanUntilBackwardAsks) {
  const plan::Graph graph = small_step();
  const auto all = rows_of(graph);
  EXPECT_LT(all[0].wait_seconds, 0) << "nobody asks for it";
  const StepTimes times(graph);
  EXPECT_NEAR(all[1].wait_seconds, times.begin(first_unpack(graph)) / 4, 1e-9) << "while h runs, of four quarters";
}

TEST(Rows, ShowTheShapeOfTheFirstResult) {
  plan::Graph graph = small_step();
  graph.ops[0].outputs = {{{}, "", ""}, {{4, 2}, "bfloat16", "cpu"}};
  graph.ops[1].outputs = {{{}, "float32", "cpu"}};
  const auto all = rows_of(graph);
  EXPECT_EQ(all[0].shape, "bf16[4, 2]");
  EXPECT_EQ(all[1].shape, "f32[]");
  EXPECT_EQ(all[2].shape, "");
}

}  // namespace
}  // namespace retrace::report
