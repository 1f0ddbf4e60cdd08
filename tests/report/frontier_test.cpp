#include "report/frontier.h"

#include <gtest/gtest.h>

#include "report/hand_trace.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

TEST(Frontier, TicksAreRoundAndInside) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(1, 1.5, 5).size(), 6u);
  EXPECT_EQ(round_ticks(3, 3, 5), std::vector<double>{3}) << "no range, no ticks but one";
  for (const double tick : round_ticks(137.3, 426, 4)) EXPECT_TRUE(tick >= 137.3 && tick <= 426) << tick;
}

TEST(Frontier, EveryPointIsToldBeforeItIsLookedAt) {
  const plan::Graph graph = make_hand_net().graph;
  std::vector<std::string> told;
  const Frontier frontier = find_frontier(graph, {}, 2, [&](const std::string& name) { told.push_back(name); });
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), "full");
  EXPECT_EQ(frontier.points.front().mark, 'a');
  EXPECT_EQ(frontier.points.back().figures.peak_bytes, frontier.plain_bytes) << "the last budget is the plain peak";
  EXPECT_EQ(frontier.points.back().figures.extra_seconds, 0);
}

TEST(Frontier, TheDialHasEveryNumberUpToWhereNothingIsKept) {
  const plan::Graph graph = plan::synthetic_transformer(6);
  std::vector<std::string> names;
  for (const FrontierPoint& point : find_frontier(graph, {}, 0, [](const std::string&) {}).points)
    names.push_back(point.figures.policy);
  ASSERT_GT(names.size(), 6U);
  for (size_t n = 1; n + 3 <= names.size() && n <= 16; ++n) EXPECT_EQ(names[n], "every:" + std::to_string(n));
  EXPECT_EQ(names.front(), "full");
  EXPECT_EQ(names.back(), "recompute_all");
}

TEST(Frontier, APlotAndAPictureOfOnePointHaveNoHoles) {
  const plan::Graph graph = make_hand_net().graph;
  const Frontier frontier = find_frontier(graph, {"full"}, 0, [](const std::string&) {});
  EXPECT_NE(draw_frontier(frontier, 80).find('a'), std::string::npos);
  const std::string svg = frontier_svg(frontier, "one point");
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("\"inf"), std::string::npos) << svg;
  EXPECT_EQ(draw_frontier(Frontier{}, 80), "");
}

}  // namespace
}  // namespace retrace::report
