// Views: saved, written through, returned, of inputs, and under a policy.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::views {

using torch::Tensor;

TEST(Views, SavedViewsHaveTheirShapesAndStrides) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 6}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();
          auto a = h.t().sin();
          auto b = h.view({3, 8}).narrow(1, 2, 4).cos();
          auto c = h.select(0, 1).expand({4, 6}).tanh();
          auto d = h.unfold(1, 3, 2).sigmoid();
          auto e = h.as_strided({3, 3}, {2, 3}, 1).exp();
          auto f = h.diagonal().sin() * h.transpose(0, 1).flatten().slice(0, 0, 4).cos();
          return a.sum() + b.sum() + c.sum() + d.sum() + e.sum() + f.sum();
        },
        x);
    y.backward();
    return {y, x.grad()};
  });
}

TEST(Views, CatSplitAndChunk) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 6}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto parts = t.exp().split(2, 1);
          auto halves = (parts[0] * parts[1].sin()).chunk(2, 0);
          auto pieces = parts[2].cos().unbind(0);
          auto joined = torch::cat({halves[1].tanh(), halves[0]}, 1);
          return torch::cat({joined.flatten(), torch::stack(pieces).flatten().sin()}).exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Views, Indexing) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    using torch::indexing::Slice;
    auto x = torch::randn({5, 6}).requires_grad_();
    auto rows = torch::tensor({3, 1, 1});
    auto y = wrap(
        [&](Tensor t) {
          auto h = t.exp();
          auto a = h.index({rows}).sin();
          auto b = h.index({Slice(1, 4, 2), Slice()}).cos();
          auto c = h.masked_select(t > 0).tanh();
          auto d = h.gather(1, torch::zeros({5, 2}, torch::kLong)).exp();
          auto e = h.index_select(1, rows).sin() + h.take(torch::tensor({0, 7, 7})).cos();
          return a.sum() + b.sum() + c.sum() + d.sum() + e.sum();
        },
        x);
    y.backward();
    return {y, x.grad()};
  });
}

TEST(Views, WritesThroughViewsAreReplayed) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t * 2;
          h.select(0, 1).mul_(3);
          h.t().narrow(0, 2, 2).add_(t.narrow(1, 0, 2).t());
          auto g = h.sin();
          h.view({16}).slice(0, 0, 16, 3).zero_();
          return g * h.view({2, 8}).view({4, 4});
        },
        x);
    const auto plain_error = [&] { y.sum().backward(); };
    EXPECT_ANY_THROW(plain_error());  // sin saved h, which was written afterwards: plain and ours alike
    return {y};
  });
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t * 2;
          h.select(0, 1).mul_(3);
          h.t().narrow(0, 2, 2).add_(t.narrow(1, 0, 2).t());
          h.view({16}).slice(0, 0, 16, 3).zero_();
          return h.sin() * h.view({2, 8}).view({4, 4}).exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Views, RegionReturnsAViewOfItsInput) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 4}).requires_grad_();
    auto y = wrap([](Tensor t) { return t.t().narrow(0, 1, 2); }, x);
    EXPECT_TRUE(y.is_view());
    (y.sin() * y).sum().backward();
    return {y, x.grad()};
  });
}

TEST(Views, RegionReturnsAViewOfAnIntermediateThatIsThenWritten) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 4}).requires_grad_();
    auto y = wrap([](Tensor t) { return (t.exp() * 2).narrow(0, 1, 2); }, x);
    y.mul_(3).add_(1);
    y.sin().sum().backward();
    return {y, x.grad()};
  });
}

TEST(Views, RegionWritesThroughAViewOfItsInput) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 4}).requires_grad_();
    auto base = x * 1;
    auto y = wrap(
        [](Tensor t) {
          t.select(0, 0).mul_(2);
          return t.sin().exp();
        },
        base);
    y.sum().backward();
    return {y, base, x.grad()};
  });
}

TEST(Views, ViewsOfOneForgottenBaseAreRebuiltOnce) {
  auto x = torch::randn({4, 6}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint(
      [](Tensor t) {
        auto parts = (t * 2).split(2, 1);
        return parts[0].sin() + parts[1].cos() + parts[2].tanh().exp();
      },
      x);
  y.sum().backward();
  // The product once, tanh and exp once each, whoever saved which part of them.
  EXPECT_EQ(delta.replayed(), 3);
}

TEST(Views, APolicyMayKeepAViewOfAnIntegerTensor) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4, 3}).requires_grad_();
        auto numbers = torch::arange(8).view({2, 4});
        const auto body = [&](Tensor t) { return t.index_select(0, numbers.select(0, 0).view({4})).sin().exp(); };
        auto y = wrap.how() == How::plain ? body(x)
                                          : checkpoint({.policy = custom([](const OpInfo&) { return true; })}, body, x);
        y.sum().backward();
        return {y, x.grad()};
      },
      {How::checkpoint});
}

TEST(Views, AViewOperatorMayBeNamedByAPolicy) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4, 4}).requires_grad_();
        const auto body = [](Tensor t) { return t.exp().t().sin().t().view({16}).cos(); };
        auto y =
            wrap.how() == How::plain ? body(x) : checkpoint({.policy = selective({"aten::t", "aten::view"})}, body, x);
        y.sum().backward();
        return {y, x.grad()};
      },
      {How::checkpoint});
}

TEST(Views, MutationOfAKeptTensorThroughAViewIsDetected) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({4, 4}).requires_grad_();
  Tensor kept;
  auto y = checkpoint(
      {.policy = selective({"aten::mul.Tensor"})},
      [&](Tensor t) {
        kept = t * 2;
        return kept.sin();
      },
      x);
  kept.detach().select(0, 0).zero_();
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST(Views, ComplexNumbersAndTheirViews) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}, torch::kComplexFloat).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();
          auto c = h.conj() * torch::view_as_complex(torch::view_as_real(h).flip(1).contiguous());
          return torch::real(c).sin() + torch::imag(h).cos() + (h * h.conj()).abs() + torch::imag(c.conj()).tanh();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Views, EmptyTensors) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({0, 4}).requires_grad_();
    auto w = torch::randn({4, 3}).requires_grad_();
    auto y = wrap([&](Tensor t) { return torch::cat({t.exp().mm(w).sin(), w.narrow(1, 0, 0).t().exp().mm(w)}); }, x);
    y.sum().backward();
    return {y, x.grad(), w.grad()};
  });
}

TEST(Views, ZeroDimensionalAndBroadcastTensors) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto scale = torch::randn({}).requires_grad_();
    auto x = torch::randn({3, 1}).requires_grad_();
    auto y = wrap([&](Tensor t) { return (t.exp() * scale.sin() + torch::randn({1, 4}) * t).cos(); }, x);
    y.sum().backward();
    return {y, x.grad(), scale.grad()};
  });
}

}  // namespace retrace::test::views
