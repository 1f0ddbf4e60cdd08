// verify: bitwise fingerprints of what is dropped, compared after rebuilding.
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "support/run.h"
#include "testing/hooks.h"

namespace retrace::test::verify {

using torch::Tensor;

// A region whose only saved value comes from an operator that never computes the same thing twice.
Tensor unstable_product(const CheckpointOptions& options, const Tensor& w) {
  return checkpoint(options, [&] { return (w * unstable(torch::ones({4})).exp()).sum(); });
}

TEST(Verify, AnOperatorThatDoesNotRepeatItselfIsNamed) {
  auto w = torch::randn({4}).requires_grad_();
  auto loss = unstable_product({.verify = true}, w);
  try {
    loss.backward();
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("op '"), std::string::npos) << text;
    EXPECT_TRUE(text.find("retrace_test::unstable") != std::string::npos || text.find("aten::exp") != std::string::npos)
        << text;
  }
}

TEST(Verify, WhenTheUnstableValueItselfIsSavedItsOperatorIsNamed) {
  auto w = torch::randn({4}).requires_grad_();
  auto loss = checkpoint({.verify = true}, [&] { return (w * unstable(torch::ones({4}))).sum(); });
  try {
    loss.backward();
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("retrace_test::unstable"), std::string::npos) << e.what();
  }
}

TEST(Verify, WithoutItASampleIsStillCompared) {
  auto w = torch::randn({4}).requires_grad_();
  auto loss = unstable_product({}, w);
  EXPECT_THROW(loss.backward(), InternalError);
}

TEST(Verify, AKeptValueNeedsNoComparison) {
  RETRACE_SKIP_IF_HOSTILE();
  auto w = torch::randn({4}).requires_grad_();
  auto loss = unstable_product({.policy = selective({"retrace_test::unstable"}), .verify = true}, w);
  EXPECT_NO_THROW(loss.backward());
}

// What ctc_loss returns for its backward has padding behind shorter targets, in which lies what was in that memory
// before.
TEST(Verify, PaddingThatNobodyWritesIsNotCompared) {
  const Tensor scores = torch::randn({50, 4, 20}).requires_grad_();
  const Tensor targets = torch::randint(1, 20, {4, 12});
  const Tensor lengths = torch::tensor({50, 40, 45, 37}), target_lengths = torch::tensor({12, 7, 9, 5});
  const auto leave_behind = [](double number) { torch::full({4, 50, 25}, number); };
  const auto loss_of = [&] {
    leave_behind(1);
    return torch::ctc_loss((scores * 1.5).log_softmax(2), targets, lengths, target_lengths);
  };
  loss_of().backward();
  const Tensor plain = scores.grad().clone();
  scores.mutable_grad() = Tensor();
  const Tensor loss = checkpoint({.verify = true}, loss_of);
  leave_behind(2);
  EXPECT_NO_THROW(loss.backward());
  EXPECT_SAME_BITS(plain, scores.grad());
}

TEST(Verify, TheErrorLeavesNothingBehind) {
  auto w = torch::randn({4}).requires_grad_();
  const NothingLeaks nothing_leaks;
  auto loss = unstable_product({.verify = true}, w);
  EXPECT_THROW(loss.backward(), InternalError);
  EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
}

TEST(Verify, EveryRebuiltValueIsCounted) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint(
      {.verify = true}, [](Tensor t) { return t.sin().sin().sin().sin(); }, x);
  y.sum().backward();
  EXPECT_EQ(delta.verified(), 3);
}

TEST(Verify, WhatAutogradWouldHaveSavedItselfIsNotCompared) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  checkpoint(
      {.verify = true},
      [](Tensor t) {
        auto y = t.sin(), z = y.sin();
        z.sum().backward();  // y and z are still there
        return z;
      },
      x);
  EXPECT_EQ(delta.verified(), 0);
}

TEST(Verify, NotANumberIsComparedByItsBits) {
  auto x = torch::tensor({0.0F, -1.0F, INFINITY, NAN}).requires_grad_();
  auto y = checkpoint(
      {.verify = true}, [](Tensor t) { return t.sqrt().log().sin() * t; }, x);
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(Verify, ASessionVerifiesItsFirstStepUnlessToldNotTo) {
  RETRACE_SKIP_IF_HOSTILE();
  const auto verified_per_step = [](SessionOptions options) {
    Session session(recompute_all(), options);
    std::vector<bool> verified;
    for (int i = 0; i < 3; ++i) {
      const auto step = session.step();
      auto x = torch::randn({4}).requires_grad_();
      auto loss = x.sin().sin().sin().sum();  // the sines themselves are gone before backward
      loss.backward();
      verified.push_back(session.stats().values_verified > 0);
    }
    return verified;
  };
  EXPECT_EQ(verified_per_step({}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(verified_per_step({.verify = Verify::always}), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(verified_per_step({.verify = Verify::never}), (std::vector<bool>{false, false, false}));
}

// Steps of ever other sizes: whether something was verified in each.
template <class Program>
std::vector<bool> verified_in_steps_of(std::vector<int64_t> sizes, Program program) {
  Session session(recompute_all());
  std::vector<bool> verified;
  for (const int64_t size : sizes) {
    const auto step = session.step();
    program(torch::randn({size}).requires_grad_()).sum().backward();
    verified.push_back(session.stats().values_verified > 0);
  }
  return verified;
}

TEST(Verify, OfStepsThatAreAllNewFourAreVerifiedAndThenWhatIsNewInThem) {
  RETRACE_SKIP_IF_HOSTILE();
  EXPECT_EQ(verified_in_steps_of({4, 5, 6, 7, 8, 9, 10, 11},
                                 [](const Tensor& x) {
                                   auto y = x.sin().sin().sin();
                                   return x.numel() < 10 ? y : y.exp().sin();
                                 }),
            (std::vector<bool>{true, true, true, true, false, false, true, false}))
      << "the seventh is the first with exp";
}

TEST(Verify, WhereAPointerWroteMoreStepsAreVerified) {
  RETRACE_SKIP_IF_HOSTILE();
  for (const bool writes : {false, true}) {
    std::vector<int64_t> sizes(32);
    std::iota(sizes.begin(), sizes.end(), 4);
    const auto verified = verified_in_steps_of(sizes, [&](const Tensor& x) {
      auto y = x.sin();
      if (writes) y.data_ptr<float>()[0] = 2;
      return y.sin().sin();
    });
    EXPECT_EQ(std::count(verified.begin(), verified.end(), true), writes ? 5 : 4);
  }
}

TEST(Verify, ASessionsFirstStepNamesTheUnstableOperator) {
  auto w = torch::randn({4}).requires_grad_();
  Session session(recompute_all());
  const auto step = session.step();
  auto loss = (w * unstable(torch::ones({4}))).sum();
  EXPECT_THROW(loss.backward(), InternalError);
}

TEST(Verify, AnOutsideWriteThatNoVersionShowsIsCaught) {
  auto x = torch::randn({4});
  auto w = torch::randn({4}).requires_grad_();
  auto loss = checkpoint({.verify = true}, [&] { return (x.sin() * w).sum(); });
  x.data_ptr<float>()[0] += 1;
  EXPECT_THROW(loss.backward(), Error);
}

TEST(Verify, TheWholeSuitesHostileModeIsReallyOn) {
  EXPECT_EQ(detail::verify_everything(), hostile());
  EXPECT_EQ(detail::recompute_everything(), hostile());
}

}  // namespace retrace::test::verify
