#include "report/curve.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/hand_trace.h"
#include "report/table.h"

namespace retrace::report {
namespace {

// As many events as peaks, one second each.
plan::Graph seconds_long(size_t events) {
  plan::Graph graph;
  for (size_t i = 0; i < events; ++i) {
    plan::Op op;
    op.seconds = 1;
    graph.ops.push_back(op);
    graph.events.push_back({plan::EventKind::op, static_cast<int32_t>(i), 0, 0, 0});
  }
  graph.seconds = static_cast<double>(events);
  return graph;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

TEST(Curve, EveryColumnIsAsHighAsWhatWasLiveThen) {
  const plan::Graph graph = seconds_long(20);
  std::vector<int64_t> peaks;
  for (int64_t i = 1; i <= 20; ++i) peaks.push_back(i % 2 == 0 ? 16 : 8);
  const auto drawn = lines(draw_curve(peaks, StepTimes(graph), {.width = 33, .height = 2}));
  ASSERT_EQ(drawn.size(), 4u);
  std::string upper = "       16 B ┤", lower = "        8 B ┤";
  for (int i = 0; i < 10; ++i) upper += " █", lower += "██";
  EXPECT_EQ(drawn[0], upper);
  EXPECT_EQ(drawn[1], lower);
}

TEST(Curve, FitsItsWidthAndEndsNoLineInABlank) {
  const HandNet net = make_hand_net();
  const StepTimes times(net.graph);
  std::vector<int64_t> peaks(net.graph.events.size(), 3 << 20);
  peaks[40] = 400 << 20;
  for (const size_t width : {40, 80, 133}) {
    const auto drawn = lines(draw_curve(
        peaks, times, {.width = width, .first_unpack = first_unpack(net.graph), .peak_label = "peak 400.0 MiB"}));
    for (const std::string& line : drawn) {
      EXPECT_LE(display_width(line), width) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
    EXPECT_NE(drawn.front().find("▼"), std::string::npos);
    EXPECT_NE(drawn.back().find("backward"), std::string::npos);
  }
}

TEST(Curve, ThePeakIsMarkedWhereItIsAndAShortEventStillShows) {
  plan::Graph graph = seconds_long(100);
  for (plan::Op& op : graph.ops) op.seconds = 1;
  graph.ops[50].seconds = 1e-9;
  graph.seconds = 99;
  std::vector<int64_t> peaks(100, 1);
  peaks[50] = 8;
  const auto drawn = lines(draw_curve(peaks, StepTimes(graph), {.width = 113, .height = 2, .peak_label = "peak"}));
  const size_t mark = display_width(drawn[0].substr(0, drawn[0].find("▼")));
  const size_t block = display_width(drawn[1].substr(0, drawn[1].find("█")));
  EXPECT_EQ(mark, block);
}

TEST(Curve, OfNothingIsNothing) { EXPECT_EQ(draw_curve({}, StepTimes(plan::Graph()), {}), ""); }

}  // namespace
}  // namespace retrace::report
