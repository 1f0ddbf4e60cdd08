// Random state: operators draw the same numbers again, and nobody else notices.
#include <malloc.h>
#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/operators.h"
#include "support/run.h"

namespace retrace::test::random_state {

using torch::Tensor;

// Draws through a generator argument (bernoulli_) and through the default generator itself (rand).
Tensor noisy(const Tensor& t) { return torch::dropout(t.exp(), 0.5, true).sin() * (torch::rand({64}) * t).cos(); }

TEST(Random, DropoutParity) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear a(8, 8), b(8, 8);
    auto x = torch::randn({4, 8}).requires_grad_();
    auto first = torch::dropout(a(x), 0.3, true);
    auto y = wrap([&](Tensor t) { return torch::dropout(b(t).tanh(), 0.4, true).exp(); }, first);
    auto z = torch::dropout(y, 0.2, true);
    z.sum().backward();
    return {y, z, x.grad(), a->weight.grad(), b->weight.grad()};
  });
}

TEST(Random, NumbersDrawnInsideAModulesForward) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto w = torch::randn({4, 4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto noise = torch::rand({4, 4}) + torch::randn_like(t) * torch::normal(0.0, 1.0, {4, 4});
          auto order = torch::randperm(4);
          auto picked = torch::multinomial(torch::full({4}, 0.25), 4, true);
          auto mask = torch::bernoulli(torch::full({4, 4}, 0.5)) + torch::empty({4, 4}).uniform_(0, 1);
          return ((t + noise).mm(w).index_select(0, order).index_select(1, picked) * mask).exp() +
                 torch::randint(5, {4, 4}).to(torch::kFloat) * w;
        },
        torch::randn({4, 4}));
    y.sum().backward();
    return {y, w.grad()};
  });
}

TEST(Random, InPlaceDrawsInsideARegion) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({64}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();
          auto mask = torch::empty_like(h).bernoulli_(0.7).div_(0.7);
          auto noise = torch::zeros_like(h).normal_().exponential_();
          torch::dropout_(noise, 0.5, true);
          return (h * mask).sin() * (h + noise).cos();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Random, RandomizedLeakyReluParity) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({64}).requires_grad_();
    auto y = wrap([](Tensor t) { return torch::rrelu(t.sin(), 0.1, 0.4, true).exp(); }, x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Random, ReseedingBetweenForwardAndBackwardDoesNotMatter) {
  const auto gradient = [](bool reseed) {
    torch::manual_seed(3);
    auto x = torch::randn({64}).requires_grad_();
    auto y = checkpoint(noisy, x);
    if (reseed) torch::manual_seed(99);
    y.sum().backward();
    return x.grad();
  };
  EXPECT_SAME_BITS(gradient(false), gradient(true));
}

TEST(Random, ReplayLeavesTheAmbientStateAlone) {
  auto x = torch::randn({64}).requires_grad_();
  auto y = checkpoint(noisy, x);
  torch::rand({17});
  const auto before = generator_state();
  const StatsDelta delta;
  y.sum().backward();
  EXPECT_GT(delta.replayed(), 0);
  EXPECT_SAME_BITS(before, generator_state());
}

TEST(Random, DrawsDuringBackwardGoOnFromTheAmbientState) {
  // A hook that draws between two replays sees what it would see in the plain run.
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({64}).requires_grad_();
    Tensors drawn;
    const auto layer = [&](Tensor t) {
      auto h = noisy(t);
      h.register_hook([&](const Tensor& g) {
        drawn.push_back(torch::rand({3}));
        return g * drawn.back().sum();
      });
      return h.sin();
    };
    auto y = wrap(layer, wrap(layer, x));
    y.sum().backward();
    drawn.push_back(y);
    drawn.push_back(x.grad());
    return drawn;
  });
}

TEST(Random, AmbientStateIsPutBackAfterAnExceptionInReplay) {
  auto x = torch::randn({64}).requires_grad_();
  auto y = checkpoint(
      [](Tensor t) {
        const auto drawn_first = torch::rand({64});
        return noisy(t) * (fragile(drawn_first) + torch::rand({64})).sin();
      },
      x);
  torch::rand({17});
  const auto before = generator_state();
  break_fragile(true);
  EXPECT_THROW(y.sum().backward(), std::domain_error);
  break_fragile(false);
  EXPECT_SAME_BITS(before, generator_state());
}

TEST(Random, AGeneratorOfTheUsersOwnIsReplayedFromItsState) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(42);
    auto x = torch::randn({64}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto noise = torch::randn({64}, generator);
          auto mask = torch::empty({64}).bernoulli_(0.5, generator);
          return ((t + noise).exp() * mask).sin();
        },
        x);
    const auto state = generator.get_state();
    y.sum().backward();
    EXPECT_SAME_BITS(state, generator.get_state());
    return {y, x.grad(), torch::randn({8}, generator)};
  });
}

TEST(Random, AGeneratorNeedNotOutliveForward) {
  auto x = torch::randn({64}).requires_grad_();
  Tensor y;
  {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(42);
    y = checkpoint([&](Tensor t) { return (t * torch::randn({64}, generator).exp()).sin(); }, x);
  }
  y.sum().backward();
  auto plain = x.detach().requires_grad_();
  (plain * torch::randn({64}, at::make_generator<at::CPUGeneratorImpl>(42)).exp()).sin().sum().backward();
  EXPECT_SAME_BITS(plain.grad(), x.grad());
}

TEST(Random, ALateStartInTheMiddleOfARegionDrawsTheSameNumbers) {
  // Only the second draw is asked for: it must not depend on the first one being replayed.
  auto x = torch::randn({64}).requires_grad_();
  Tensor mask;
  const StatsDelta delta;
  auto y = checkpoint(
      [&](Tensor t) {
        auto first = t + torch::rand({64});
        auto second = torch::rand({64});
        mask = second.clone();
        return first * second;
      },
      x);
  y.sum().backward();
  EXPECT_SAME_BITS(mask, x.grad());
  EXPECT_EQ(delta.replayed(), 1);
}

TEST(Random, ManyCheckpointsLeaveNothingBehindOnTheHeap) {
  const auto steps = [](int count) {
    for (int i = 0; i < count; ++i) {
      const auto x = torch::ones({4}).requires_grad_(true);
      checkpoint([](const at::Tensor& t) { return torch::dropout(t.sin(), 0.5, true); }, x).sum().backward();
    }
  };
  steps(50);  // whatever is allocated once
  const auto before = mallinfo2().uordblks;
  steps(300);
  EXPECT_LT(static_cast<int64_t>(mallinfo2().uordblks) - static_cast<int64_t>(before), 300 * 1000);
}

}  // namespace retrace::test::random_state
