// What the page is given is what the simulator says, and no name in it can do harm.
#include "report/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <retrace/errors.h>

#include "report/ladder.h"
#include "report/scenario.h"
#include "synthetic/graphs.h"

namespace retrace::report {
namespace {

using nlohmann::json;

json data_of(const plan::Graph& graph, PageOptions options = {}) {
  options.rungs = 5;
  return json::parse(page_data(graph, options));
}

int64_t sum(const json& differences) {
  int64_t total = 0;
  for (const json& d : differences) total += d.get<int64_t>();
  return total;
}

TEST(PageData, SaysOfEachPolicyWhatIsPredicted) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  const json data = data_of(graph);
  const auto policies = under_named_policies(graph);
  ASSERT_GE(data["scenarios"].size(), policies.size());
  for (size_t i = 0; i < policies.size(); ++i) {
    const json& told = data["scenarios"][i];
    EXPECT_EQ(told["name"], policies[i].name);
    EXPECT_EQ(told["peak"], policies[i].outcome.peak_bytes);
    EXPECT_EQ(sum(told["owners"]), policies[i].outcome.peak_bytes);
    EXPECT_NEAR(told["extra"].get<double>(), 1e9 * policies[i].outcome.replay_seconds, 1);
    EXPECT_EQ(told["rerun"], policies[i].outcome.ops_replayed);
  }
  EXPECT_EQ(data["scenarios"][0]["name"], "full");
  EXPECT_EQ(data["scenarios"][0]["rebuilt"][1], 0);
}

TEST(PageData, HasThePeakOnEveryCurve) {
  const json data = data_of(plan::synthetic_transformer(30));
  for (const json& scenario : data["scenarios"]) {
    const json& curve = scenario["curve"];
    const size_t peak = curve["peak"].get<size_t>();
    int64_t at_peak = 0;
    for (const char* owner : {"weights", "gradients", "kept", "rebuilt", "other"}) {
      ASSERT_EQ(curve[owner].size(), curve["time"].size());
      for (size_t i = 0; i <= peak; ++i) at_peak += curve[owner][i].get<int64_t>();
    }
    EXPECT_EQ(at_peak, scenario["peak"]) << scenario["name"];
  }
}

TEST(PageData, AccountsForWhateverBackwardAsksFor) {
  const json data = data_of(plan::synthetic_transformer(3));
  const auto asked = [](const json& s) {
    return s["kept"][1].get<int64_t>() + s["encoded"][1].get<int64_t>() + s["rebuilt"][1].get<int64_t>();
  };
  for (const json& scenario : data["scenarios"])
    EXPECT_EQ(asked(scenario), asked(data["scenarios"][0])) << scenario["name"];
}

TEST(PageData, ShowsAPlanThatIsGiven) {
  const plan::Graph graph = plan::synthetic_transformer(3);
  PageOptions options;
  options.plan = ladder(graph, 3, [](const std::string&) {}).front().plan;
  options.plan_name = "mine.json";
  const json data = data_of(graph, options);
  const auto given = std::find_if(data["scenarios"].begin(), data["scenarios"].end(),
                                  [](const json& s) { return s["kind"] == "plan"; });
  ASSERT_NE(given, data["scenarios"].end());
  EXPECT_EQ((*given)["name"], "mine.json");
  EXPECT_EQ((*given)["peak"], options.plan->peak_bytes);
}

TEST(PageData, TellsProgressAsOftenAsItSays) {
  PageOptions options;
  options.rungs = 5;
  int told = 0;
  options.progress = [&](const std::string&) { ++told; };
  page_data(plan::synthetic_transformer(2), options);
  EXPECT_EQ(told, options.parts());
}

TEST(PageData, OfTwentyThousandOperatorsIsAFewMegabytes) {
  const plan::Graph graph = plan::synthetic_transformer(670);
  ASSERT_GT(graph.ops.size(), 20'000U);
  PageOptions options;
  options.rungs = 3;
  const size_t with_three = page_data(graph, options).size();
  options.rungs = 2;
  const size_t with_two = page_data(graph, options).size();
  EXPECT_LT(with_three + 21 * (with_three - with_two), 4U << 20);
}

TEST(PageData, OfAnEmptyTapeIsStillAPage) {
  const json data = data_of(plan::Graph());
  EXPECT_EQ(data["scenarios"][0]["peak"], 0);
  EXPECT_TRUE(data["rows"]["name"].empty());
}

TEST(Page, KeepsHostileNamesInsideItsData) {
  plan::Graph graph = plan::synthetic_transformer(1);
  const std::string hostile = "</script><script>alert(1)</script><!--<script>";
  graph.ops[0].name = graph.ops[1].module = hostile;
  graph.ops[2].name = "not UTF-8: \xff\xfe";
  PageOptions options;
  options.rungs = 2;
  options.title = hostile;
  const std::string made = page("<before><!--retrace-data--><after>", page_data(graph, options));
  const std::string open = R"(<script type="application/json" id="data">)", close = "</script>";
  ASSERT_TRUE(made.starts_with("<before>" + open));
  ASSERT_TRUE(made.ends_with(close + "<after>"));
  const std::string inside =
      made.substr(8 + open.size(), made.size() - 8 - open.size() - close.size() - std::string("<after>").size());
  EXPECT_EQ(inside.find('<'), std::string::npos);
  EXPECT_EQ(json::parse(inside)["title"], hostile);
}

TEST(Page, NeedsAPlaceForItsData) { EXPECT_THROW(page("<html></html>", "{}"), InternalError); }

}  // namespace
}  // namespace retrace::report
