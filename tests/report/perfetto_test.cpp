// A trace that Perfetto can open: tracks whose slices do not overlap, and a counter that reaches the peak.
#include "report/perfetto.h"

#include <gtest/gtest.h>

#include <map>

#include <nlohmann/json.hpp>

#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

using nlohmann::json;

class Perfetto : public testing::Test {
 protected:
  void SetUp() override {
    graph_.ops[3].module = "a \"layer\"\n";
    scenarios_ = {under_policy(graph_, keep_all()), under_policy(graph_, every(1))};
    events_ = json::parse(chrome_trace(graph_, scenarios_))["traceEvents"];
  }

  // By process and track.
  std::map<std::pair<int, int>, std::vector<json>> slices() const {
    std::map<std::pair<int, int>, std::vector<json>> result;
    for (const json& e : events_) {
      if (e["ph"] == "X") result[{e["pid"], e["tid"]}].push_back(e);
    }
    return result;
  }

  plan::Graph graph_ = plan::synthetic_transformer(3);
  std::vector<Scenario> scenarios_;
  json events_;
};

TEST_F(Perfetto, HasEveryOperatorOfForwardAndThoseThatRanAgain) {
  const auto all = slices();
  for (size_t i = 0; i < scenarios_.size(); ++i) {
    const int process = static_cast<int>(i) + 1;
    EXPECT_EQ(all.at({process, 1}).size(), graph_.ops.size());
    const auto rebuilt = all.find({process, 3});
    EXPECT_EQ(rebuilt == all.end() ? 0 : rebuilt->second.size(),
              static_cast<size_t>(scenarios_[i].outcome.ops_replayed));
  }
  EXPECT_GT(scenarios_[1].outcome.ops_replayed, 0);
}

TEST_F(Perfetto, HasSlicesThatDoNotOverlap) {
  for (const auto& [track, list] : slices()) {
    double end = 0;
    for (const json& slice : list) {
      ASSERT_GE(slice["ts"].get<double>(), end - 0.0021) << track.second;  // rounded to nanoseconds
      end = slice["ts"].get<double>() + slice["dur"].get<double>();
    }
  }
}

TEST_F(Perfetto, CountsBytesUpToThePeak) {
  std::map<int, int64_t> most;
  for (const json& e : events_) {
    if (e["ph"] != "C") continue;
    int64_t total = 0;
    for (const auto& [owner, bytes] : e["args"].items()) total += bytes.get<int64_t>();
    most[e["pid"]] = std::max(most[e["pid"]], total);
  }
  EXPECT_EQ(most[1], scenarios_[0].outcome.peak_bytes);
  EXPECT_EQ(most[2], scenarios_[1].outcome.peak_bytes);
}

TEST_F(Perfetto, ShowsOperatorsOfBackwardWhereTheTapeHasThem) {
  const auto first = std::find_if(graph_.events.begin(), graph_.events.end(),
                                  [](const plan::Event& e) { return e.kind == plan::EventKind::unpack; });
  const auto after = static_cast<int32_t>(first - graph_.events.begin());
  graph_.backward_ops = {{"aten::mm", 0.001, after}, {"aten::sum", 0.002, after}};
  SetUp();
  const auto all = slices();
  ASSERT_EQ(all.at({1, 2}).size(), 2U);
  EXPECT_EQ(all.at({1, 2})[1]["name"], "aten::sum");
}

}  // namespace
}  // namespace retrace::report
