// A budget holds in every step of every model, and the plan says beforehand what the step takes.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "session/budget_steps.h"
#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::prediction {

constexpr int kBudgets = 8;

void expect_equal(const std::vector<StepSeen>& plain, const std::vector<StepSeen>& ours) {
  ASSERT_EQ(plain.size(), ours.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].bits == ours[i].bits) << "loss, gradients or buffers of step " << i + 1 << " differ";
  }
}

void expect_held(const std::vector<StepSeen>& steps, int64_t budget_bytes) {
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_LE(steps[i].peak_bytes, budget_bytes) << "in step " << i + 1;
  }
}

void expect_predicted(const StepSeen& step) {
  ASSERT_TRUE(step.plan);
  EXPECT_EQ(step.plan->peak_bytes, step.peak_bytes);
}

std::string described(const std::vector<StepSeen>& steps) {
  std::string text;
  for (const StepSeen& step : steps) {
    text += "; peak " + std::to_string(step.peak_bytes) + " predicted " +
            (step.plan ? std::to_string(step.plan->peak_bytes) : "none") + " replayed " +
            std::to_string(step.stats.ops_replayed);
  }
  return text;
}

class EveryModel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(models::names()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryModel, KeepsEveryBudgetInEveryStepAndPredictsItsPeak) {
  const Training training{GetParam()};
  const auto plain = train(training, std::nullopt);
  int followed = 0;
  for (const int64_t bytes : budgets_between(smallest_budget(training), highest_peak(plain), kBudgets)) {
    SCOPED_TRACE("budget of " + std::to_string(bytes) + ", plain peak " + std::to_string(highest_peak(plain)));
    const NothingLeaks nothing_leaks;
    const auto ours = train(training, budget(bytes));
    expect_equal(plain, ours);
    expect_held(ours, bytes);
    for (size_t i = 1; i < ours.size(); ++i) {
      if (!ours[i].stats.followed_plan) continue;  // evicts by times that it measures: no two alike
      expect_predicted(ours[i]);
      ++followed;
    }
  }
  EXPECT_GT(followed, 0);
}

TEST_P(EveryModel, AcceptsTheSmallestBudgetThatARefusalNames) {
  const Training training{GetParam()};
  int64_t smallest = 0;
  try {
    train(training, budget(1));
  } catch (const InfeasibleBudget& refusal) {
    smallest = refusal.smallest_bytes;
  }
  EXPECT_NO_THROW(expect_held(train(training, budget(smallest)), smallest));
}

// Below the smallest budget eviction may do what no plan is known for. Then it goes on by eviction, and says so,
// instead of looking for a plan before every step.
TEST_P(EveryModel, GoesOnByEvictionWhereThereIsNoPlanAndPlansNoMore) {
  const Training training{GetParam(), 6};
  const int64_t smallest = smallest_budget(training);
  for (int tenths = 1; tenths <= 20; tenths += 3) {
    const int64_t bytes = smallest - smallest * tenths / 1000;
    SCOPED_TRACE("budget of " + std::to_string(bytes));
    std::vector<StepSeen> steps;
    try {
      steps = train(training, budget(bytes), {.planning = Planning::foreground});
    } catch (const InfeasibleBudget&) {
      continue;
    }
    const auto online = [&](size_t i) { return steps[i].plan->strategy == "eviction"; };
    for (size_t i = 1; i < steps.size(); ++i) {
      ASSERT_TRUE(steps[i].plan) << "in step " << i + 1;
      if (i < 3 || !online(i - 1) || !online(i - 2)) continue;
      EXPECT_EQ(steps[i].plan->planning_seconds, steps[i - 1].plan->planning_seconds) << "planned in step " << i + 1;
    }
    steps.pop_back();  // what it breaks after its backward only a next step could refuse
    expect_held(steps, bytes);
  }
}

TEST_P(EveryModel, ReplaysNothingWithABudgetOfWhatThePlainProgramTakesAndALittle) {
  const Training training{GetParam()};
  const int64_t plain = highest_peak(train(training, std::nullopt));
  for (const StepSeen& step : train(training, budget(plain + plain / 50))) {
    EXPECT_EQ(step.stats.ops_replayed, 0);
    EXPECT_GE(step.peak_bytes, plain * 98 / 100);
  }
}

TEST_P(EveryModel, KeepsItsBudgetWhileOptimizersMakeTheirState) {
  for (const auto& [update, clear] :
       {std::pair(Update::sgd, Clear::set_to_none), std::pair(Update::adam, Clear::zero)}) {
    const Training training{GetParam(), 3, update, clear};
    const auto plain = train(training, std::nullopt);
    const int64_t smallest = smallest_budget(training);
    for (const int64_t bytes : budgets_between(smallest, std::max(smallest, highest_peak(plain)), 2)) {
      SCOPED_TRACE(std::string(update == Update::sgd ? "SGD" : "Adam, gradients zeroed") + ", budget of " +
                   std::to_string(bytes) + ", plain peak " + std::to_string(highest_peak(plain)));
      const auto ours = train(training, budget(bytes));
      SCOPED_TRACE(described(ours));
      expect_equal(plain, ours);
      expect_held(ours, bytes);
    }
  }
}

std::string temporary_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("retrace_" + std::to_string(::getpid()) + "_" + name)).string();
}

// The tape of one step of `session` and the peak that was measured meanwhile.
std::pair<plan::Graph, int64_t> taped_step(Session& session, const std::string& name) {
  const models::Model model = models::make_model(name, models::Size::test);
  memory::reset_peak();
  {
    const auto step = session.step();
    model.loss().backward();
  }
  const int64_t measured = memory::peak_bytes();
  const std::string path = temporary_path("tape");
  session.save_tape(path);
  std::pair<plan::Graph, int64_t> taped{plan::load_graph(path), measured};
  std::filesystem::remove(path);
  return taped;
}

TEST_P(EveryModel, IsSimulatedAsItIs) {
  RETRACE_SKIP_IF_HOSTILE();
  const int64_t plain = highest_peak(train({GetParam(), 1}, std::nullopt));
  Session keeping(keep_all(), {.verify = Verify::never}), roomy(budget("1TiB"), {.verify = Verify::never});
  for (Session* const session : {&keeping, &roomy}) {
    const auto [graph, measured] = taped_step(*session, GetParam());
    const int64_t simulated = plan::plain(graph).peak_bytes;
    EXPECT_GE(measured, plain);
    EXPECT_EQ(simulated, measured);
  }
}

TEST_P(EveryModel, TakesNoLongerByPlanWithALargerBudget) {
  Session session(budget("1TiB"));
  const plan::Graph graph = taped_step(session, GetParam()).first;
  double before = 1e300;
  for (const int64_t bytes : budgets_between(plan::smallest(graph).peak_bytes, plan::plain(graph).peak_bytes, 12)) {
    const plan::Answer answer = plan::solve(graph, bytes);
    ASSERT_TRUE(answer.plan);
    // The search ends where less than a small part of a step could be gained (plan/solve/planner.h).
    EXPECT_LE(answer.plan->seconds, 1.005 * before) << "at " << bytes;
    before = std::min(before, answer.plan->seconds);
  }
  EXPECT_EQ(plan::solve(graph, plan::plain(graph).peak_bytes).plan->replay_seconds, 0);
}

}  // namespace retrace::test::prediction
