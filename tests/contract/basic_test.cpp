// Basic API and gradient parity.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::basic {

using torch::Tensor;

TEST(Basic, InputGradientEqualsThePlainCalls) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 5}).requires_grad_();
    auto y = wrap([](Tensor t) { return t.sin().exp().cos(); }, x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Basic, GradientRequestedFunctionallyEqualsThePlainCalls) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 5}).requires_grad_();
    auto y = wrap([](Tensor t) { return t.sin().exp().cos(); }, x);
    auto gradients = torch::autograd::grad({y.sum()}, {x});
    EXPECT_FALSE(x.grad().defined());
    return {y, gradients[0]};
  });
}

TEST(Basic, FunctionRunsOnceAndOnlyWhatIsAskedForIsReplayed) {
  int calls = 0;
  auto x = torch::randn({4, 5}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint(
      [&](Tensor t) {
        ++calls;
        return t.sin().exp().cos();
      },
      x);
  EXPECT_EQ(delta.steps(), 1);
  EXPECT_EQ(delta.recorded(), 3);
  EXPECT_EQ(delta.saved(), 3);    // x, the result of exp, the input of cos
  EXPECT_EQ(delta.dropped(), 2);  // x is the caller's
  EXPECT_EQ(delta.replayed(), 0);
  y.sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(delta.replayed(), 2);  // sin and exp; nobody saved what cos made
}

TEST(Basic, OperatorsAfterTheLastSavedTensorAreNeverReplayed) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint([](Tensor t) { return (t.exp() + 1).neg() * 2 + 3; }, x);
  y.sum().backward();
  EXPECT_EQ(delta.recorded(), 5);
  EXPECT_EQ(delta.replayed(), 1);  // exp saves its own result
}

TEST(Basic, LiteralsAreNotIntercepted) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint([](Tensor t) { return t * 2.5; }, x);
  y.sum().backward();
  EXPECT_EQ(delta.dropped(), 0);
  EXPECT_EQ(delta.replayed(), 0);
  EXPECT_SAME_BITS(x.grad(), torch::full({4}, 2.5));
}

TEST(Basic, ParametersLearnEvenIfNoInputRequiresGrad) {
  for (const bool input_requires_grad : {false, true}) {
    expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
      torch::nn::Linear a(6, 8), b(8, 3);
      auto x = torch::randn({5, 6}).requires_grad_(input_requires_grad);
      auto y = wrap([&](Tensor t) { return b(a(t).relu()); }, x);
      y.square().mean().backward();
      return {y, a->weight.grad(), a->bias.grad(), b->weight.grad(), b->bias.grad(), x.grad()};
    });
  }
}

TEST(Basic, ThousandsOfRegionsInOneGraphBackpropagate) {
  on_small_stack([] {
    expect_same_as_plain(
        [](const Wrap& wrap) -> Tensors {
          auto w = torch::randn({3}).requires_grad_();
          std::vector<Tensor> parts;
          for (int i = 0; i < 2000; ++i) parts.push_back(wrap([&](int k) { return (w * k).tanh().exp().sum(); }, i));
          auto loss = torch::stack(parts).sum();
          loss.backward();
          return {loss, w.grad()};
        },
        {How::checkpoint, How::in_session, How::session_recompute_all});
  });
}

TEST(Basic, ThousandsOfRegionsOneAfterAnotherBackpropagate) {
  on_small_stack([] {
    expect_same_as_plain(
        [](const Wrap& wrap) -> Tensors {
          auto x = torch::randn({3}).requires_grad_();
          Tensor y = x;
          for (int i = 0; i < 2000; ++i) y = wrap([](Tensor t) { return t.tanh().sin(); }, y);
          y.sum().backward();
          return {y, x.grad()};
        },
        {How::checkpoint, How::in_session});
  });
}

TEST(Basic, TenThousandOperatorsInOneRegionDoNotExhaustTheStack) {
  on_small_stack([] {
    expect_same_as_plain(
        [](const Wrap& wrap) -> Tensors {
          auto x = torch::randn({3}).requires_grad_();
          auto y = wrap(
              [](Tensor t) {
                for (int i = 0; i < 10'000; ++i) t = t.sin();
                return t;
              },
              x);
          y.sum().backward();
          return {y, x.grad()};
        },
        {How::checkpoint, How::nested, How::session_recompute_all, How::session_every});
  });
}

TEST(Basic, TenThousandOperatorsAreEachReplayedAtMostOnce) {
  auto x = torch::randn({3}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint(
      [](Tensor t) {
        for (int i = 0; i < 10'000; ++i) t = t.sin();
        return t;
      },
      x);
  y.sum().backward();
  EXPECT_EQ(delta.recorded(), 10'000);
  EXPECT_EQ(delta.replayed(), 9'999);
}

TEST(Basic, GradModeOffMakesItAPlainCall) {
  torch::nn::Linear layer(3, 3);
  int calls = 0;
  const torch::NoGradGuard no_grad;
  const StatsDelta delta;
  auto y = checkpoint(
      [&](Tensor t) {
        ++calls;
        return layer(t).exp();
      },
      torch::randn({2, 3}));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(delta.recorded(), 0);
  EXPECT_EQ(delta.saved(), 0);
}

TEST(Basic, RegionWhollyUnderNoGradJoinsTheLaterGraph) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear layer(3, 3);
    auto a = torch::randn({2, 3}).requires_grad_();
    Tensors results;
    for (int i = 0; i < 3; ++i) {
      auto out = wrap(
          [&](Tensor t) {
            const torch::NoGradGuard no_grad;
            return layer(t).exp();
          },
          a);
      EXPECT_FALSE(out.requires_grad());
      out += a;
      (out * out.detach()).sum().backward();
      results.push_back(out);
    }
    EXPECT_FALSE(layer->weight.grad().defined());
    results.push_back(a.grad());
    return results;
  });
}

TEST(Basic, NoGradPartsInsideARegionFeedItsGradients) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto a = torch::randn({2, 3}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          Tensor gate;
          {
            const torch::NoGradGuard no_grad;
            gate = t.sigmoid().round();
          }
          return (t * gate).exp() * t.detach().sin();
        },
        a);
    y.sum().backward();
    return {y, a.grad()};
  });
}

TEST(Basic, SameLayerCheckpointedTwiceContributesTwice) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear layer(4, 4);
    auto x = torch::randn({2, 4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return layer(t).tanh(); }, wrap([&](Tensor t) { return layer(t).tanh(); }, x));
    y.sum().backward();
    return {y, x.grad(), layer->weight.grad(), layer->bias.grad()};
  });
}

TEST(Basic, WeightsSharedByLayersGetTheirWholeGradient) {
  for (const bool whole : {true, false}) {
    expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
      auto w = torch::randn({4, 4}).requires_grad_();
      auto x = torch::randn({2, 4});
      const auto first = [&](Tensor t) { return t.mm(w).tanh(); };
      const auto second = [&](Tensor t) { return t.mm(w.t()).exp(); };
      auto y = whole ? wrap([&](Tensor t) { return second(first(t)); }, x) : wrap(second, wrap(first, x));
      y.sum().backward();
      return {y, w.grad()};
    });
  }
}

TEST(Basic, WhichLayerIsCheckpointedMayChangeBetweenSteps) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(4, 4), b(4, 4), unused(4, 4);
    auto x = torch::randn({2, 4});
    Tensors results;
    for (int step = 0; step < 4; ++step) {
      const auto run_a = [&](Tensor t) { return a(t).tanh(); };
      const auto run_b = [&](Tensor t) { return b(t).sigmoid(); };
      auto y = step % 2 == 0 ? run_b(wrap(run_a, x)) : wrap(run_b, run_a(x));
      y.sum().backward();
      for (auto& p : {a->weight, b->weight}) results.push_back(p.grad().clone());
    }
    EXPECT_FALSE(unused->weight.grad().defined());
    return results;
  });
}

TEST(Basic, SixTrainingStepsDeliverGradientsToEveryParameter) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(4, 8), b(8, 4);
    std::vector<Tensor> parameters = a->parameters();
    for (auto& p : b->parameters()) parameters.push_back(p);
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
    auto x = torch::randn({3, 4});
    Tensors results;
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      auto y = wrap([&](Tensor t) { return b(wrap([&](Tensor u) { return a(u).relu(); }, t)); }, x);
      (y - x).square().mean().backward();
      for (auto& p : parameters) results.push_back(p.grad().clone());
      optimizer.step();
    }
    for (auto& p : parameters) results.push_back(p.detach());
    return results;
  });
}

Tensor free_function(const Tensor& t) { return t.exp().sin(); }
struct Functor {
  Tensor operator()(const Tensor& t) const { return t.exp().sin(); }
};

TEST(Basic, AnyCallableCanBeCheckpointed) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    torch::nn::Linear holder(4, 4);
    const std::function<Tensor(Tensor)> function = [](Tensor t) { return t.sin().cos(); };
    const auto once = [owned = std::make_unique<double>(3)](Tensor t) { return (t * *owned).exp(); };
    auto y = wrap(static_cast<Tensor (*)(const Tensor&)>(at::exp), x) + wrap(free_function, x) + wrap(Functor{}, x) +
             wrap(function, x) + wrap(once, x) + wrap(holder, x) + wrap([&] { return x.tanh().exp(); });
    y.sum().backward();
    return {y, x.grad(), holder->weight.grad()};
  });
}

TEST(Basic, MemberFunctionsCanBeCheckpointed) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(static_cast<Tensor (Tensor::*)() const>(&Tensor::exp), x).sin();
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Basic, CapturedLocalsNeedNotOutliveForward) {
  auto x = torch::randn({4}).requires_grad_();
  Tensor y;
  {
    const auto scale = std::make_unique<double>(1.5);
    auto local = torch::full({4}, 2.0);
    y = checkpoint([&](Tensor t) { return ((t * *scale).exp() * local).sin(); }, x);
  }
  y.sum().backward();
  auto plain = x.detach().requires_grad_();
  ((plain * 1.5).exp() * torch::full({4}, 2.0)).sin().sum().backward();
  EXPECT_SAME_BITS(plain.grad(), x.grad());
}

}  // namespace retrace::test::basic
