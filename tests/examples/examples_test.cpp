// One program of examples/ in miniature (RETRACE_EXAMPLE names it): under every policy and within budgets it prints the
// digits that it prints without Retrace, in the memory that was asked for. Nothing here looks at the clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/retrace/example.h"

namespace retrace::test::examples {

using cli::ExampleRun;

// Held beside what a policy keeps: copies of small tensors that in-place operators overwrite (README, "Checkpoint a
// whole step"). In miniature nothing that is forgotten makes up for them.
constexpr int64_t kCopiedBytes = 4096;

class Example : public ::testing::Test {
 protected:
  static std::string name() {
    const char* const name = std::getenv("RETRACE_EXAMPLE");
    if (name == nullptr) throw std::runtime_error("RETRACE_EXAMPLE must name a program of examples/");
    return name;
  }

  // A step that was never seen is given the percentage of the largest that was, with the optimizer state that has
  // appeared since: an estimate. Of force_field's steps it is too high: 80 % came out at 82.7.
  static double percent_tolerance() { return name() == "force_field" ? 0.03 : 0; }

  // Threads take turns as they like: how much is live at once differs from run to run, of the plain program too. A
  // budget in bytes holds all the same.
  static bool peak_is_reproducible() { return name() != "threads"; }

  static std::vector<ExampleRun> run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--small");
    return cli::run_example(std::string(RETRACE_EXAMPLES_DIR) + "/" + name(), arguments);
  }

  static const ExampleRun& plain() {
    static const ExampleRun result = run({"--plain"})[0];
    return result;
  }
  static int64_t share_of_plain(double fraction) {
    return static_cast<int64_t>(static_cast<double>(plain().peak_bytes) * fraction);
  }

  static void expect_plain_digits(const ExampleRun& run) {
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.digits, plain().digits);
    EXPECT_EQ(run.end_bytes, plain().end_bytes) << "something was not let go of";
  }

  // `within` is the run that was given `bytes`. Only a step that was run shows what it needs, so a smallest budget may
  // be followed by a larger one when a larger step comes: at most one per step.
  static void expect_to_work_within(int64_t bytes, ExampleRun within) {
    for (size_t again = 0; again < plain().step_peak_bytes.size() && within.smallest_bytes; ++again) {
      if (!peak_is_reproducible()) return;  // of what the other threads will have, nobody knows
      EXPECT_GT(*within.smallest_bytes, bytes) << "refused a budget that is large enough by its own words";
      bytes = *within.smallest_bytes;
      within = run({"--budget", std::to_string(bytes)})[0];
    }
    SCOPED_TRACE("within " + std::to_string(bytes) + " bytes of " + std::to_string(plain().peak_bytes));
    expect_plain_digits(within);
    EXPECT_LE(within.peak_bytes, bytes);
  }
};

TEST_F(Example, PrintsAFigureAndALossPerStepAndIsRepeatable) {
  EXPECT_EQ(plain().exit_code, 0);
  EXPECT_FALSE(plain().digits.empty());
  EXPECT_EQ(plain().digits.find("nan"), std::string::npos);
  EXPECT_GE(plain().step_peak_bytes.size(), 5u);
  EXPECT_EQ(run({"--plain"})[0].digits, plain().digits);
}

TEST_F(Example, TrainsAsWithoutRetraceInNoMoreMemoryUnderEveryPolicy) {
  const std::vector<std::string> policies{"keep_all", "selective", "every:2", "recompute_all"};
  std::vector<std::string> arguments;
  for (const std::string& policy : policies) arguments.insert(arguments.end(), {"--policy", policy});
  const auto runs = run(arguments);
  ASSERT_EQ(runs.size(), policies.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(policies[i]);
    expect_plain_digits(runs[i]);
    if (!peak_is_reproducible()) continue;
    EXPECT_LE(runs[i].peak_bytes, plain().peak_bytes + kCopiedBytes);
  }
}

TEST_F(Example, KeepsToPercentsFromTheSecondStepOnOrIsToldASmallestBudgetThatWorks) {
  const std::vector<double> percents{100, 80, 60, 50};
  std::vector<std::string> arguments;
  for (const double percent : percents) arguments.insert(arguments.end(), {"--budget", std::to_string(percent) + "%"});
  const auto runs = run(arguments);
  ASSERT_EQ(runs.size(), percents.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(std::to_string(percents[i]) + " %");
    if (const auto smallest = runs[i].smallest_bytes) {
      // A percentage is of the step at hand, which need not be the largest.
      const int64_t least = *std::min_element(plain().step_peak_bytes.begin(), plain().step_peak_bytes.end());
      if (peak_is_reproducible()) {
        EXPECT_GT(static_cast<double>(*smallest), static_cast<double>(least) * percents[i] / 100);
      }
      expect_to_work_within(*smallest, run({"--budget", std::to_string(*smallest)})[0]);
      continue;
    }
    expect_plain_digits(runs[i]);
    if (!peak_is_reproducible()) continue;
    for (size_t step = 1; step < runs[i].step_peak_bytes.size(); ++step)
      EXPECT_LE(runs[i].step_peak_bytes[step], share_of_plain(percents[i] / 100 + percent_tolerance()))
          << "in step " << step + 1;
  }
}

TEST_F(Example, KeepsToBytesFromTheFirstStepOnOrIsToldASmallestBudgetThatWorks) {
  const std::vector<int64_t> budgets{share_of_plain(0.8), share_of_plain(0.6), share_of_plain(0.5)};
  std::vector<std::string> arguments;
  for (const int64_t bytes : budgets) arguments.insert(arguments.end(), {"--budget", std::to_string(bytes)});
  const auto runs = run(arguments);
  ASSERT_EQ(runs.size(), budgets.size());
  for (size_t i = 0; i < runs.size(); ++i) expect_to_work_within(budgets[i], runs[i]);
}

TEST_F(Example, RebuildsEveryBitWhenEverythingIsComparedAndFreedMemoryIsPoisoned) {
  const auto runs = run({"--verify", "--policy", "recompute_all", "--budget", "80%"});
  ASSERT_EQ(runs.size(), 2u);
  expect_plain_digits(runs[0]);
  if (!runs[1].smallest_bytes) expect_plain_digits(runs[1]);
}

}  // namespace retrace::test::examples
