// An exception at every operator of a step, in forward and in replay.
#include <gtest/gtest.h>

#include "support/hostile.h"
#include "testing/hooks.h"
#include "trainer.h"

namespace retrace::test::faults::operators {
namespace {

class OperatorFaults : public ::testing::TestWithParam<Way> {};

void expect_injected(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    EXPECT_EQ(fault.type, typeid(detail::InjectedFault).name());
    EXPECT_EQ(fault.message.rfind("injected fault at ", 0), 0u) << fault.message;
  }
}

TEST_P(OperatorFaults, ReachTheCallerAndTheNextStepIsRight) {
  const auto faults = sweep(GetParam(), /*warm=*/0, detail::fail_operator_after);
  expect_injected(faults);
  EXPECT_GT(count(faults, Phase::forward), 10u);
  const bool drops = GetParam() != Way::session_keep || hostile();
  // Only replay runs recorded operators during backward.
  EXPECT_EQ(count(faults, Phase::backward) > 0, drops);
}

TEST_P(OperatorFaults, InALaterStepReachTheCallerAndTheNextStepIsRight) {
  expect_injected(sweep(GetParam(), /*warm=*/2, detail::fail_operator_after));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, OperatorFaults, ::testing::ValuesIn(every_way()),
                         [](const auto& info) { return name(info.param); });

// Parameters, statistics and generator after the n-th operator failed in forward: the policy must not matter, since
// forward runs the same operators under each.
TEST(OperatorFaults, LeaveInForwardWhatAnyOtherPolicyLeaves) {
  const auto state_after = [](Way way, int64_t n) {
    Trainer trainer(way);
    detail::fail_operator_after(n);
    const auto fault = run_step(trainer);
    detail::fail_operator_after(-1);
    return fault && fault->phase == Phase::forward ? trainer.state() : Tensors{};
  };
  for (int64_t n = 0;; ++n) {
    const Tensors expected = state_after(Way::session_keep, n);
    if (expected.empty()) {
      EXPECT_GT(n, 10);
      break;
    }
    SCOPED_TRACE("fault " + std::to_string(n));
    for (const Way way : {Way::session_recompute, Way::session_every, Way::session_custom}) {
      EXPECT_SAME_BITS(expected, state_after(way, n));
    }
  }
}

// Replay draws from recorded states and must put the ambient generator back also when it fails half-way.
TEST(OperatorFaults, InReplayLeaveTheGeneratorAndTheStatisticsAlone) {
  Tensors first;
  for (int64_t n = 0;; ++n) {
    Trainer trainer(Way::checkpoint);
    detail::fail_operator_after(n);
    const auto fault = run_step(trainer);
    detail::fail_operator_after(-1);
    if (!fault) break;
    if (fault->phase != Phase::backward) continue;
    if (first.empty()) first = trainer.state();
    EXPECT_SAME_BITS(first, trainer.state()) << "fault " << n;
  }
  EXPECT_FALSE(first.empty()) << "no operator was replayed";
}

}  // namespace
}  // namespace retrace::test::faults::operators
