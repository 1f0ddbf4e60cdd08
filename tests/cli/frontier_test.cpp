// retrace frontier: points of named policies and of plans, as a table, a plot and a picture.
#include <algorithm>

#include "plan/file/file.h"
#include "process.h"
#include "report/hand_trace.h"

namespace retrace::test::cli {
namespace {

using FrontierCommand = Folder;

TEST_F(FrontierCommand, HasEveryNUntilNothingIsKeptAndPlansThatAreNeverSlowerWithMore) {
  const auto all = retrace({"frontier", hand_tape(), "--json", "--budgets", "6"}).json();
  std::vector<std::string> names;
  double before = 1e300;
  int plans = 0;
  for (const auto& point : all["points"]) {
    names.push_back(point["policy"]);
    if (!point["planned"].get<bool>()) continue;
    ++plans;
    EXPECT_LE(point["seconds"].get<double>(), before);
    EXPECT_LE(point["peak_bytes"].get<int64_t>(), point["budget_bytes"].get<int64_t>());
    before = point["seconds"];
  }
  EXPECT_EQ(plans, 6);
  for (const char* name : {"full", "every:1", "every:2", "every:3", "selective", "recompute_all"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  EXPECT_EQ(all["points"][0]["peak_bytes"], all["plain_bytes"]);
}

TEST_F(FrontierCommand, WhatIsBeatenInBothIsMarked) {
  for (const auto& point : retrace({"frontier", hand_tape(), "--json", "--budgets", "0"}).json()["points"]) {
    // 34 KiB in 154 ms, where every:2 takes 32 KiB and 149 ms.
    const std::string name = point["policy"];
    if (name != "full" && name != "every:2" && name != "every:3") continue;
    EXPECT_EQ(point["dominated"].get<bool>(), name == "every:3") << point;
  }
}

TEST_F(FrontierCommand, DrawsAPlotInEightyColumns) {
  const Ran ran = retrace({"frontier", hand_tape(), "--budgets", "4"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out.find("●"), std::string::npos);
  EXPECT_NE(ran.out.find("1.00x ┤"), std::string::npos) << ran.out;
}

TEST_F(FrontierCommand, WritesAPictureInWhichNamesAreText) {
  const std::string tape = path("a<b>&\".tape");
  plan::save(report::make_hand_net().graph, tape);
  const Ran ran = retrace({"frontier", tape, "--budgets", "3", "-o", path("f.svg")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string svg = read("f.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << svg;
  for (const char* words :
       {"every:2", "peak memory of the step, KiB", "prefers-color-scheme: dark", "a&lt;b&gt;&amp;&quot;.tape"})
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  EXPECT_EQ(svg.find("a<b>"), std::string::npos);
  for (const char* number : {"nan", "inf"}) EXPECT_EQ(svg.find("\"" + std::string(number)), std::string::npos);
}

TEST_F(FrontierCommand, TakesThePoliciesItIsGiven) {
  const auto all =
      retrace({"frontier", hand_tape(), "--json", "--budgets", "0", "--policy", "full", "selective:tanh"}).json();
  ASSERT_EQ(all["points"].size(), 2u);
  EXPECT_EQ(all["points"][1]["policy"], "selective:tanh");
}

}  // namespace
}  // namespace retrace::test::cli
