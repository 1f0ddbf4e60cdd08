// verify: bitwise fingerprints of what is dropped, compared after rebuilding.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "support/run.h"
#include "tape/fingerprint.h"
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
      x.sin().sin().sin().sum().backward();
      verified.push_back(session.stats().values_verified > 0);
    }
    return verified;
  };
  EXPECT_EQ(verified_per_step({}), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(verified_per_step({.verify = Verify::always}), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(verified_per_step({.verify = Verify::never}), (std::vector<bool>{false, false, false}));
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

// Views of all kinds over a storage of 4 x 6 x 5 floats.
std::vector<Tensor> views_of(const Tensor& base) {
  return {base,
          base.permute({2, 0, 1}),
          base.narrow(1, 1, 3),
          base.slice(2, 0, 5, 2),
          base.slice(0, 1, 4, 2).slice(1, 0, 6, 3).transpose(0, 2),
          base.select(1, 2),
          base.select(0, 1).select(0, 2).select(0, 3),
          base.narrow(2, 1, 1).expand({4, 6, 7}),
          base.flatten().as_strided({5, 4}, {3, 2}, 1)};
}

TEST(Verify, AFingerprintSeesEveryByteOfItsViewAndNoOther) {
  const auto base = torch::rand({4, 6, 5});
  const auto inside = torch::zeros({4, 6, 5});
  for (size_t k = 0; k < views_of(base).size(); ++k) {
    SCOPED_TRACE("view " + std::to_string(k));
    const Tensor view = views_of(base)[k];
    inside.zero_();
    views_of(inside)[k].fill_(1);
    const uint64_t before = fingerprint(view);
    for (int64_t i = 0; i < base.numel(); ++i) {
      auto* const bytes = static_cast<unsigned char*>(base.data_ptr()) + 4 * i + i % 4;
      *bytes ^= 1;
      EXPECT_EQ(fingerprint(view) != before, inside.data_ptr<float>()[i] == 1) << "element " << i;
      *bytes ^= 1;
    }
    EXPECT_EQ(fingerprint(view), before);
  }
}

TEST(Verify, AFingerprintOfManySmallRowsSeesEachOfThem) {
  const auto base = torch::zeros({3000, 3});
  const Tensor column = base.select(1, 1), pairs = base.narrow(1, 0, 2);
  const uint64_t of_column = fingerprint(column), of_pairs = fingerprint(pairs);
  for (int64_t row = 0; row < base.size(0); ++row) {
    float& element = base.data_ptr<float>()[3 * row + 1];
    element = 1;
    EXPECT_NE(fingerprint(column), of_column) << "row " << row;
    EXPECT_NE(fingerprint(pairs), of_pairs) << "row " << row;
    element = 0;
  }
}

TEST(Verify, AFingerprintTakesNoTensorMemory) {
  const auto base = torch::rand({4, 6, 5}), numbers = torch::view_as_complex(torch::rand({4, 5, 2}));
  std::vector<Tensor> views = views_of(base);
  views.push_back(numbers.conj().slice(1, 0, 5, 2));
  views.push_back(torch::imag(numbers.conj()));
  const int64_t live = memory::live_bytes();
  memory::reset_peak();
  for (const Tensor& view : views) fingerprint(view);
  EXPECT_EQ(memory::peak_bytes(), live);
}

TEST(Verify, TheWholeSuitesHostileModeIsReallyOn) {
  EXPECT_EQ(detail::verify_everything(), hostile());
  EXPECT_EQ(detail::recompute_everything(), hostile());
}

}  // namespace retrace::test::verify
