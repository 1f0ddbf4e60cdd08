// Autocast (bfloat16 on the CPU): only the forward's state counts.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/compat.h"
#include "support/run.h"

namespace retrace::test::autocast {

using torch::Tensor;

Tensors results_of(const Tensor& y, const torch::nn::Linear& a, const torch::nn::Linear& b, const Tensor& x) {
  return {y, x.grad(), a->weight.grad(), a->bias.grad(), b->weight.grad(), b->bias.grad()};
}

TEST(AutocastState, BackwardOutsideTheScopeRebuildsInReducedPrecision) {
  for (const bool enabled : {true, false}) {
    expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
      torch::nn::Linear a(8, 8), b(8, 8);
      auto x = torch::randn({4, 8}).requires_grad_();
      Tensor y;
      {
        const Autocast autocast(enabled);
        y = wrap([&](Tensor t) { return b(a(t).tanh()).exp(); }, x);
      }
      EXPECT_FALSE(Autocast::is_enabled());
      y.sum().backward();
      return results_of(y, a, b, x);
    });
  }
}

TEST(AutocastState, ScopeInsideTheRegion) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(8, 8), b(8, 8);
    auto x = torch::randn({4, 8}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          const Autocast autocast;
          auto h = a(t).relu();
          const Autocast off(false);
          return b(h.to(torch::kFloat)).exp();
        },
        x);
    y.sum().backward();
    return results_of(y, a, b, x);
  });
}

TEST(AutocastState, TheOutputIsReallyInReducedPrecision) {
  torch::nn::Linear a(8, 8);
  const Autocast autocast;
  auto y = checkpoint([&](Tensor t) { return a(t); }, torch::randn({4, 8}));
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
}

TEST(AutocastState, BackwardUnderAutocastEqualsThePlainBackwardUnderAutocast) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(8, 8), b(8, 8);
    auto x = torch::randn({4, 8}).requires_grad_();
    auto y = wrap([&](Tensor t) { return b(a(t).tanh()).exp(); }, x);
    const Autocast autocast;
    y.sum().backward();
    return results_of(y, a, b, x);
  });
}

TEST(AutocastState, WeightsCastOnceAndSharedByRegions) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(8, 8);
    auto x = torch::randn({4, 8}).requires_grad_();
    Tensor y = x;
    {
      const Autocast autocast;
      for (int i = 0; i < 3; ++i) y = wrap([&](Tensor t) { return a(t).tanh(); }, y);
    }
    y.sum().backward();
    return {y, x.grad(), a->weight.grad(), a->bias.grad()};
  });
}

TEST(AutocastState, ReductionsStayInFullPrecision) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(8, 5);
    auto x = torch::randn({4, 8}).requires_grad_();
    auto target = torch::randint(5, {4}, torch::kLong);
    Tensor loss;
    {
      const Autocast autocast;
      loss = wrap([&](Tensor t) { return torch::nn::functional::cross_entropy(a(t), target); }, x);
    }
    loss.backward();
    return {loss, x.grad(), a->weight.grad()};
  });
}

}  // namespace retrace::test::autocast
