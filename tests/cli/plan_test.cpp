// retrace plan: a plan that holds, or the smallest budget that would.
#include "plan/file/file.h"
#include "process.h"
#include "report/hand_trace.h"

namespace retrace::test::cli {
namespace {

using PlanCommand = Folder;

TEST_F(PlanCommand, WritesAPlanThatTheTapeConfirms) {
  const Ran ran = retrace({"plan", hand_tape(), "--budget", "34KiB", "-o", path("plan.json")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const plan::Plan plan = plan::load_plan(path("plan.json"));
  EXPECT_NO_THROW(plan::verify(plan, plan::load_graph(hand_tape())));
  EXPECT_LE(plan.peak_bytes, 34 * 1024);
  EXPECT_NE(ran.out.find("retrace::budget(\"34KiB\")"), std::string::npos) << ran.out;
}

TEST_F(PlanCommand, JsonSaysWhatThePlanSays) {
  const auto all = retrace({"plan", hand_tape(), "--budget", "85%", "--json"}).json();
  EXPECT_EQ(all["plain_bytes"], 40 * 1024);
  EXPECT_EQ(all["budget_bytes"], 34 * 1024);
  EXPECT_TRUE(all["fits"]);
  EXPECT_LE(all["peak_bytes"].get<int64_t>(), 34 * 1024);
  EXPECT_GE(all["ratio"].get<double>(), 1);
  EXPECT_LE(all["bound_seconds"].get<double>(), all["seconds"].get<double>() * (1 + 1e-9));
}

TEST_F(PlanCommand, TooSmallABudgetNamesTheSmallestAndThatOneWorks) {
  expect_refused({"plan", hand_tape(), "--budget", "10KiB", "-o", path("plan.json")}, {"smallest budget known to hold"},
                 1);
  EXPECT_FALSE(std::filesystem::exists(path("plan.json")));
  const Ran json = retrace({"plan", hand_tape(), "--budget", "10KiB", "--json"});
  EXPECT_EQ(json.code, 1);
  EXPECT_FALSE(json.json()["fits"]);
  const std::string smallest = std::to_string(json.json()["smallest_bytes"].get<int64_t>());
  EXPECT_EQ(retrace({"plan", hand_tape(), "--budget", smallest}).code, 0);
}

TEST_F(PlanCommand, AWholeBudgetCostsNothing) {
  const auto all = retrace({"plan", hand_tape(), "--budget", "100%", "--json"}).json();
  EXPECT_EQ(all["ratio"], 1);
  EXPECT_EQ(all["operators_again"], 0);
}

TEST_F(PlanCommand, RefusesBudgetsThatCannotBeMeant) {
  expect_refused({"plan", hand_tape()}, {"--budget"});
  for (const char* budget : {"", "much", "0", "-5MiB", "120%", "1.5Gb", "nan"})
    expect_refused({"plan", hand_tape(), "--budget", budget}, {"budget"});
}

}  // namespace
}  // namespace retrace::test::cli
