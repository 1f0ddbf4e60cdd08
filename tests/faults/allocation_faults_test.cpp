// Out of memory at every allocation of a step: forward, replay and backward.
#include <gtest/gtest.h>

#include "testing/hooks.h"
#include "trainer.h"

namespace retrace::test::faults::allocations {
namespace {

class AllocationFaults : public ::testing::TestWithParam<Way> {};

// What the same fault looks like to a program without Retrace.
Fault plain_fault() {
  Trainer trainer(Way::plain);
  detail::fail_allocation_after(0);
  const auto fault = run_step(trainer);
  detail::fail_allocation_after(-1);
  return fault.value();
}

void expect_out_of_memory(const std::vector<Fault>& faults) {
  const Fault expected = plain_fault();
  for (const Fault& fault : faults) EXPECT_EQ(fault.type, expected.type) << fault.message;
}

TEST_P(AllocationFaults, ReachTheCallerAndTheNextStepIsRight) {
  const auto faults = sweep(GetParam(), /*warm=*/0, detail::fail_allocation_after);
  expect_out_of_memory(faults);
  EXPECT_GT(count(faults, Phase::forward), 10u);
  EXPECT_GT(count(faults, Phase::backward), 10u);
}

TEST_P(AllocationFaults, InALaterStepReachTheCallerAndTheNextStepIsRight) {
  expect_out_of_memory(sweep(GetParam(), /*warm=*/2, detail::fail_allocation_after));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, AllocationFaults, ::testing::ValuesIn(every_way()),
                         [](const auto& info) { return name(info.param); });

TEST(AllocationFaults, OfAPlainStepAreTheMeasureAndRecoverToo) {
  for (const int warm : {0, 2}) {
    const auto faults = sweep(Way::plain, warm, detail::fail_allocation_after);
    expect_out_of_memory(faults);
    EXPECT_GT(count(faults, Phase::backward), 5u);
  }
}

// A hard limit is the same fault without injection: wherever it strikes, memory comes back and the next step is right.
TEST(AllocationFaults, AtAHardLimitReachTheCallerAndTheNextStepIsRight) {
  const Fault expected = plain_fault();
  for (const Way way : every_way()) {
    Trainer trainer(way);
    trainer.step();
    trainer.clear_gradients();
    const int64_t before = memory::live_bytes();
    size_t struck = 0;
    for (int64_t room = 0;; room += 64) {
      SCOPED_TRACE(name(way) + " with room for " + std::to_string(room) + " bytes");
      memory::set_limit(before + room);
      const auto fault = run_step(trainer);
      memory::clear_limit();
      if (!fault) break;
      ++struck;
      EXPECT_EQ(fault->type, expected.type) << fault->message;
      expect_recovers(trainer, before);
      trainer.clear_gradients();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    EXPECT_GT(struck, 3u) << name(way);
  }
}

}  // namespace
}  // namespace retrace::test::faults::allocations
