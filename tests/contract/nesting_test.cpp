// Regions within regions, and regions within steps.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/run.h"

namespace retrace::test::nesting {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;

Tensor gradient(const Tensor& y, const Tensor& x) { return torch::autograd::grad({y}, {x}, {}, true, true)[0]; }

TEST(Nesting, WrappingTwiceOrThriceChangesNothing) {
  const auto body = [](Tensor t) { return t.sin().exp().cos(); };
  expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto twice = wrap([&](Tensor t) { return wrap(body, t); }, x);
    auto thrice = wrap([&](Tensor t) { return wrap([&](Tensor u) { return wrap(body, u); }, t).exp(); }, x);
    (twice + thrice).sum().backward();
    return {twice, thrice, x.grad()};
  });
}

TEST(Nesting, DoublyWrappedFunctionIsReplayedAsOftenAsASinglyWrappedOne) {
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint([](Tensor t) { return checkpoint([](Tensor u) { return u.sin().exp().cos(); }, t); }, x);
  y.sum().backward();
  EXPECT_EQ(delta.steps(), 1);
  EXPECT_EQ(delta.recorded(), 3);
  EXPECT_EQ(delta.replayed(), 2);
}

TEST(Nesting, TwoCheckpointedChildrenUnderACheckpointedParent) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    const auto child = [](Tensor t) { return t.sin() * t.exp(); };
    const auto parent = [&](Tensor t) { return wrap(child, t) * wrap(child, t.cos()); };
    auto first = gradient(wrap(parent, x).sum(), x);
    auto second = gradient(first.sum(), x);
    auto wrapped_gradient = wrap([&](Tensor t) { return gradient(parent(t).sum(), t); }, x);
    auto second_again = gradient(wrapped_gradient.sum(), x);
    return {first, second, wrapped_gradient, second_again};
  });
}

TEST(Nesting, FunctionThatConsumesGraphsOfItsOwn) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    const auto body = [&](Tensor t) {
      auto inner = t.detach().requires_grad_();
      auto once = torch::autograd::grad({(inner.sin() * inner).sum()}, {inner})[0];
      auto again = torch::autograd::grad({(inner.exp() * inner).sum()}, {inner})[0];
      return t.exp() * once + t.sin() * again;
    };
    auto y = wrap(body, x);
    auto z = wrap([&](Tensor t) { return wrap(body, t).sin() + body(t); }, x);
    (y + z).sum().backward();
    return {y, z, x.grad()};
  });
}

TEST(Nesting, UnrelatedResultAfterInnerGradients) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    const auto body = [](Tensor t) {
      auto h = t.sin().exp();
      torch::autograd::grad({h.sum()}, {t}, {}, true);
      torch::autograd::grad({h.cos().sum()}, {t});
      return t.clone().exp();
    };
    auto y = wrap([&](Tensor t) { return wrap(body, t); }, x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

// What a region of three sines keeps of its two inner results.
int64_t bytes_kept_inside(const CheckpointOptions& outer, const CheckpointOptions& inner) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto y = checkpoint(
      outer,
      [&](Tensor t) {
        return checkpoint(
            inner, [](Tensor u) { return u.sin().sin().sin(); }, t);
      },
      x);
  return live.bytes() - kUnit;
}

TEST(Nesting, ASavedTensorBelongsToTheInnermostRegion) {
  RETRACE_SKIP_IF_HOSTILE();
  EXPECT_EQ(bytes_kept_inside({.policy = keep_all()}, {.policy = recompute_all()}), 0);
  EXPECT_EQ(bytes_kept_inside({.policy = recompute_all()}, {.policy = keep_all()}), 2 * kUnit);
}

TEST(Nesting, LeavingTheInnerRegionRestoresTheOuterPolicy) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto y = checkpoint(
      {.policy = keep_all()},
      [](Tensor t) {
        auto h = checkpoint([](Tensor u) { return u.sin().sin(); }, t);  // one forgotten
        return h.sin().sin();                                            // h and one more kept
      },
      x);
  EXPECT_EQ(live.bytes(), 3 * kUnit);
}

TEST(Nesting, SelectiveRegionsWithDifferentPlansNest) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4, 4}).requires_grad_();
        auto w = torch::randn({4, 4}).requires_grad_();
        const auto inner = [&](Tensor t) { return t.mm(w).sin().exp(); };
        const auto outer = [&](Tensor t) {
          auto h = wrap.how() == How::plain ? inner(t) : checkpoint({.policy = selective({"aten::sin"})}, inner, t);
          return h.mm(w).tanh();
        };
        auto y = wrap.how() == How::plain ? outer(x) : checkpoint({.policy = selective({"aten::mm"})}, outer, x);
        y.sum().backward();
        return {y, x.grad(), w.grad()};
      },
      {How::checkpoint});
}

TEST(Nesting, SelectiveRegionsKeepWhatEachOneNames) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto y = checkpoint(
      {.policy = selective({"aten::exp"})},
      [](Tensor t) {
        auto h = checkpoint(
            {.policy = selective({"aten::sin"})}, [](Tensor u) { return u.sin().exp().cos(); }, t);
        return h.sin().exp().cos();
      },
      x);
  EXPECT_EQ(live.bytes(), 3 * kUnit);  // the inner sin, the outer exp, y
}

TEST(Nesting, ARegionInsideAReplayedRegionMayDependOnTheOuterOnesValues) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto h = t.exp();
          auto g = wrap([&](Tensor u) { return (u * h).sin().exp(); }, t.cos());
          return (g * h).tanh();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Nesting, SessionInsideACheckpoint) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4}).requires_grad_();
        auto y = wrap(
            [](Tensor t) {
              Session session(recompute_all());
              const auto step = session.step();
              return t.sin().exp().cos();
            },
            x);
        y.sum().backward();
        return {y, x.grad()};
      },
      {How::plain, How::checkpoint, How::nested, How::kept, How::in_session, How::session_recompute_all});
}

TEST(Nesting, BackwardOfAnInnerRegionInsideTheOuterOne) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          wrap([&](Tensor u) { return (u * w).sin().exp(); }, t.detach()).sum().backward();
          return (t * w.grad()).exp();
        },
        x);
    y.sum().backward();
    return {y, x.grad(), w.grad()};
  });
}

}  // namespace retrace::test::nesting
