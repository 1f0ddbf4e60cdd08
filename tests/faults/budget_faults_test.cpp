// Faults at every operator and every allocation of a step under a budget: of a first step, which evicts, and of one
// that follows a plan.
#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include <typeinfo>

#include "testing/hooks.h"
#include "trainer.h"

namespace retrace::test::faults::budgets {
namespace {

// What every step starts from, and what a plain one makes of it. The tensors live throughout, so that a
// budget means the same in each step.
class Course {
 public:
  Course() {
    Trainer plain(Way::plain);
    start_ = plain.state();
    plain.step();
    expected_ = plain.state();
  }

  // A little above the smallest.
  int64_t budget_bytes() const {
    Trainer trainer(budget(1));
    try {
      trainer.step();
    } catch (const InfeasibleBudget& refusal) {
      return refusal.smallest_bytes + 64;
    }
    ADD_FAILURE() << "a budget of one byte was not refused";
    return 0;
  }

  void expect_right_step(Trainer& trainer, int64_t bytes) const {
    trainer.set_state(start_);
    memory::reset_peak();
    trainer.step();
    EXPECT_LE(memory::peak_bytes(), bytes);
    trainer.clear_gradients();
    EXPECT_SAME_BITS(expected_, trainer.state());
  }

 private:
  Tensors start_, expected_;
};

// Whether the n-th fault has not struck yet: it then strikes within so many operators and allocations more.
bool still_armed(int64_t n) {
  for (int64_t k = 0; k <= n; ++k) {
    try {
      checkpoint([] { return torch::ones({1}) + 1; });
    } catch (const std::exception&) {
      return true;
    }
  }
  return false;
}

// As sweep() does for the other ways. But plans depend on times, so steps need not be equally long: whether a fault
// that was not seen was swallowed, or never came, must be asked.
std::vector<Fault> sweep_budget(int warm, const std::function<void(int64_t)>& arm) {
  c10::SetStackTraceFetcher([] { return std::string(); });
  const Course course;
  const int64_t bytes = course.budget_bytes();
  std::vector<Fault> faults;
  for (int64_t n = 0, unseen = 0; unseen < 3 && !::testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("after " + std::to_string(warm) + " steps, fault " + std::to_string(n));
    const int64_t outside = memory::live_bytes();
    {
      Trainer trainer{budget(bytes)};
      for (int k = 0; k < warm; ++k) course.expect_right_step(trainer, bytes);
      EXPECT_EQ(trainer.session().plan().has_value(), warm > 1);
      const int64_t before = memory::live_bytes();
      arm(n);
      const auto fault = run_step(trainer);
      const bool swallowed = !fault && !still_armed(n);
      EXPECT_FALSE(swallowed) << "the fault did not reach the caller";
      arm(-1);
      trainer.clear_gradients();
      if (fault) {
        unseen = 0;
        faults.push_back(*fault);
        flush_engine();
        EXPECT_EQ(memory::live_bytes(), before) << "live bytes did not return to where they were";
        for (int k = 0; k < 2; ++k) course.expect_right_step(trainer, bytes);
      } else {
        EXPECT_GT(trainer.session().stats().ops_replayed, 0) << "the budget asks for nothing";
        ++unseen;
      }
    }
    EXPECT_EQ(memory::live_bytes(), outside);
  }
  return faults;
}

class BudgetFaults : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Steps, BudgetFaults, ::testing::Values(0, 2),
                         [](const auto& info) { return info.param == 0 ? "First" : "Planned"; });

TEST_P(BudgetFaults, AtOperatorsReachTheCallerAndTheNextStepsAreRightAndWithinTheBudget) {
  const auto faults = sweep_budget(GetParam(), detail::fail_operator_after);
  for (const Fault& fault : faults) EXPECT_EQ(fault.type, typeid(detail::InjectedFault).name()) << fault.message;
  EXPECT_GT(count(faults, Phase::forward), 10u);
  EXPECT_GT(count(faults, Phase::backward), 0u) << "no operator was replayed";
}

TEST_P(BudgetFaults, AtAllocationsReachTheCallerAndTheNextStepsAreRightAndWithinTheBudget) {
  const auto faults = sweep_budget(GetParam(), detail::fail_allocation_after);
  for (const Fault& fault : faults) EXPECT_EQ(fault.type, typeid(c10::OutOfMemoryError).name()) << fault.message;
  EXPECT_GT(count(faults, Phase::forward), 10u);
  EXPECT_GT(count(faults, Phase::backward), 10u);
}

}  // namespace
}  // namespace retrace::test::faults::budgets
