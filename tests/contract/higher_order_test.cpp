// Gradients of gradients, backward inside a region, and every way of asking.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::higher_order {

using torch::Tensor;

Tensor gradient(const Tensor& y, const Tensor& x) { return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0]; }
Tensor body(Tensor t) { return t.sin() * t.exp() + t.pow(3); }

TEST(HigherOrder, GradientOfACheckpointedGradient) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto first = wrap([](Tensor t) { return gradient(body(t), t); }, x);
    auto second = gradient(first, x);
    return {first, second};
  });
}

TEST(HigherOrder, GradientOfTheGradientOfACheckpoint) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto first = gradient(wrap(body, x), x);
    auto second = gradient(first, x);
    return {first, second};
  });
}

TEST(HigherOrder, CheckpointOfTheGradientOfAGradient) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto second = wrap([](Tensor t) { return gradient(gradient(body(t), t), t); }, x);
    second.sum().backward();
    return {second, x.grad()};
  });
}

TEST(HigherOrder, ThirdOrderWithAlternatingWraps) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    const auto first = [&](Tensor t) { return gradient(wrap(body, t), t); };
    const auto second = [&](Tensor t) { return gradient(wrap(first, t), t); };
    auto third = gradient(wrap(second, x), x);
    auto other = gradient(second(x), x);
    return {third, other};
  });
}

TEST(HigherOrder, BackwardInsideTheRegionDuringForward) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          (t.detach() * w).exp().sum().backward();
          return (t * w.grad()).sin().exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad(), w.grad()};
  });
}

TEST(HigherOrder, GradientPenaltyTrainsTheSame) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(4, 6), b(6, 1);
    auto x = torch::randn({3, 4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return b(a(t).tanh()); }, x);
    auto penalty = (gradient(y, x).norm(2, 1) - 1).square().mean();
    (y.mean() + 10 * penalty).backward();
    return {y, penalty, a->weight.grad(), a->bias.grad(), b->weight.grad(), x.grad()};
  });
}

TEST(HigherOrder, GradModeAroundBackwardDoesNotMatter) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto loss = wrap(body, x).sum();
    Tensor g;
    {
      const torch::NoGradGuard no_grad;
      g = torch::autograd::grad({loss}, {x}, {}, true)[0];
    }
    loss.backward();
    return {loss, g, x.grad()};
  });
}

TEST(HigherOrder, EveryWayOfAskingForGradients) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return body(t * w).cos(); }, x);
    auto weights = torch::rand({4});
    Tensors results = {y};
    results.push_back(torch::autograd::grad({y}, {w}, {weights}, true)[0]);
    results.push_back(torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0]);
    torch::autograd::backward({y}, {weights}, true, false, {w});
    EXPECT_FALSE(x.grad().defined());
    results.push_back(w.grad().clone());
    torch::autograd::backward({y, y.exp()}, {weights, weights});
    results.push_back(x.grad());
    results.push_back(w.grad());
    return results;
  });
}

TEST(HigherOrder, CreateGraphBackwardLeavesADifferentiableGradient) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(body, x);
    y.sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    auto g = x.grad();
    EXPECT_TRUE(g.requires_grad());
    auto second = torch::autograd::grad({g.sin().sum()}, {x})[0];
    x.mutable_grad() = Tensor();  // breaks the cycle x -> grad -> graph -> x
    return {y, g.detach(), second};
  });
}

TEST(HigherOrder, DoubleBackwardIsIntercepted) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto first = checkpoint([](Tensor t) { return gradient(t.sin().exp(), t); }, x);
  EXPECT_GT(delta.dropped(), 2);  // more than forward's own exp: what backward saved for the second order
  first.sum().backward();
  EXPECT_GT(delta.replayed(), 0);
}

TEST(HigherOrder, EveryPatternLetsGoOfItsMemory) {
  auto x = torch::randn({4}).requires_grad_();
  const NothingLeaks nothing_leaks;
  { auto y = checkpoint(body, x); }
  { auto g = gradient(checkpoint(body, x), x); }
  {
    auto g = checkpoint([](Tensor t) { return gradient(body(t), t); }, x);
  }
  {
    auto g = gradient(checkpoint([](Tensor t) { return gradient(checkpoint(body, t), t); }, x), x);
  }
}

}  // namespace retrace::test::higher_order
