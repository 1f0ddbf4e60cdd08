// Few points, and nothing of importance is lost.
#include "report/curve_points.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/scenario.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

TEST(CurvePoints, OfALongStepHasFewPointsAndItsPeak) {
  const plan::Graph graph = plan::synthetic_transformer(40);
  const Scenario scenario = under_policy(graph, every(2));
  const StepTimes times(graph, scenario.history.replay_seconds);
  const auto points = curve_points(times, scenario.history, 50);
  EXPECT_LE(points.size(), 151U);
  EXPECT_EQ(points.front().event, 0U);
  const auto highest = std::max_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.owners.total() < b.owners.total(); });
  EXPECT_EQ(highest->owners.total(), scenario.outcome.peak_bytes);
  EXPECT_TRUE(std::any_of(points.begin(), points.end(),
                          [&](const CurvePoint& p) { return p.event == scenario.outcome.peak_event; }));
}

TEST(CurvePoints, HasTheLowestEventOfEveryStretchToo) {
  const plan::Graph graph = plan::synthetic_transformer(40);
  const Scenario scenario = under_policy(graph, every(1));
  const StepTimes times(graph, scenario.history.replay_seconds);
  const auto least = [](const auto& all) {
    int64_t bytes = INT64_MAX;
    for (const auto& owners : all) bytes = std::min(bytes, owners.total());
    return bytes;
  };
  std::vector<plan::Owners> drawn;
  for (const CurvePoint& point : curve_points(times, scenario.history, 50)) drawn.push_back(point.owners);
  EXPECT_EQ(least(drawn), least(scenario.history.owners));
}

TEST(CurvePoints, OfAShortStepHasEveryEventInOrder) {
  const plan::Graph graph = plan::synthetic_random(7, 12);
  const Scenario scenario = under_policy(graph, keep_all());
  const auto points = curve_points(StepTimes(graph, scenario.history.replay_seconds), scenario.history, 400);
  ASSERT_EQ(points.size(), graph.events.size());
  for (size_t e = 0; e < points.size(); ++e) EXPECT_EQ(points[e].event, e);
}

}  // namespace
}  // namespace retrace::report
