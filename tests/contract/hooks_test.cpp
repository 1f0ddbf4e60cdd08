// Gradient hooks fire once on the original graph; saved-tensor hooks of the user's own compose.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "libtorch/compat.h"
#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::hooks {

using torch::Tensor;
using torch::autograd::variable_list;

TEST(Hooks, HookOnAParameterUsedInsideAndOutsideFiresOnce) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto w = torch::randn({4, 4}).requires_grad_();
    int fired = 0;
    w.register_hook([&](const Tensor&) { ++fired; });
    auto x = torch::randn({4, 4});
    auto y = wrap([&](Tensor t) { return t.mm(w).tanh().mm(w); }, x);
    (y + w).sum().backward();
    EXPECT_EQ(fired, 1);
    return {y, w.grad()};
  });
}

class CallOnce : public torch::autograd::FunctionPostHook {
 public:
  explicit CallOnce(std::function<void()> call) : call_(std::move(call)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

TEST(Hooks, NodeHookOnTheOriginalGraphFiresOncePerBackward) {
  auto x = torch::randn({4}).requires_grad_();
  int fired = 0;
  auto y = checkpoint(
      [&](Tensor t) {
        auto h = t.sin();
        h.grad_fn()->add_post_hook(std::make_unique<CallOnce>([&] { ++fired; }));
        return h.exp().cos();
      },
      x);
  y.sum().backward({}, true);
  EXPECT_EQ(fired, 1);
  y.sum().backward();
  EXPECT_EQ(fired, 2);
}

TEST(Hooks, BackwardRunsOnTheOriginalGraph) {
  auto x = torch::randn({4}).requires_grad_();
  const torch::autograd::Node* inside = nullptr;
  Tensor leaked;
  auto y = checkpoint(
      [&](Tensor t) {
        leaked = t.sin();
        inside = leaked.grad_fn().get();
        return leaked.exp();
      },
      x);
  y.sum().backward();
  EXPECT_EQ(leaked.grad_fn().get(), inside);
  EXPECT_EQ(y.grad_fn()->next_edge(0).function.get(), inside);
}

TEST(Hooks, NodeHookThatRunsBackwardThroughAnotherPartOfTheRegion) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_(), w = torch::randn({4}).requires_grad_();
    auto [a, b] = wrap([](Tensor t, Tensor u) { return std::pair(t.sin().exp().cos(), u.cos().exp().sin()); }, x, w);
    Tensor inner;
    a.grad_fn()->add_post_hook(
        std::make_unique<CallOnce>([&, loss = b.sum()] { inner = torch::autograd::grad({loss}, {w}, {}, true)[0]; }));
    auto g = torch::autograd::grad({a.sum()}, {x}, {}, true)[0];
    auto again = torch::autograd::grad({(a * b).sum()}, {x, w}, {}, true);
    return {a, b, inner, g, again[0], again[1]};
  });
}

TEST(Hooks, TensorHookThatRunsBackwardThroughAnotherPartOfItsRegion) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    Tensor inner;
    auto y = wrap(
        [&](Tensor t) {
          auto h = t.sin().exp();
          auto other = t.cos().exp().sum();
          h.register_hook([&, t, other](const Tensor&) { inner = torch::autograd::grad({other}, {t}, {}, true)[0]; });
          return h.cos().exp();
        },
        x);
    y.sum().backward();
    return {y, inner, x.grad()};
  });
}

TEST(Hooks, HooksRegisteredInsideFireOnceEachInBackwardOrder) {
  auto x = torch::randn({4}).requires_grad_();
  std::vector<int> fired;
  auto y = checkpoint(
      [&](Tensor t) {
        for (int i = 0; i < 5; ++i) {
          t = t.sin().exp();
          t.register_hook([&fired, i](const Tensor&) { fired.push_back(i); });
        }
        return t;
      },
      x);
  y.sum().backward();
  EXPECT_EQ(fired, (std::vector<int>{4, 3, 2, 1, 0}));
}

TEST(Hooks, AHookMayReplaceTheGradientInsideARegion) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto y = wrap(
        [](Tensor t) {
          auto h = t.exp();
          h.register_hook([](const Tensor& g) { return g.clamp(-0.5, 0.5) * 2; });
          return (h * h).sin();
        },
        x);
    y.sum().backward();
    return {y, x.grad()};
  });
}

TEST(Hooks, RetainedIntermediateGradients) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    Tensor middle;
    auto y = wrap(
        [&](Tensor t) {
          middle = t.exp();
          middle.retain_grad();
          return (middle * middle).sin();
        },
        x);
    y.sum().backward();
    return {y, middle.grad(), x.grad()};
  });
}

// A user's own saved-tensor hooks: a copy elsewhere, as an offloader would make.
class CopyHooks : public compat::SavedVariableHooks {
 public:
  static int packed, unpacked;
  void call_pack_hook(const Tensor& tensor) override {
    ++packed;
    const torch::NoGradGuard no_grad;
    copy_ = tensor.detach().clone();
  }
  Tensor call_unpack_hook() override {
    ++unpacked;
    return copy_;
  }

 private:
  Tensor copy_;
};
int CopyHooks::packed = 0;
int CopyHooks::unpacked = 0;

TEST(Hooks, UserHooksOnATensorSavedOutsideTheRegionCompose) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4}).requires_grad_();
        auto y = wrap([](Tensor t) { return t.exp().cos(); }, x);
        auto z = y.sin();  // saves y
        static_cast<torch::autograd::generated::SinBackward0*>(z.grad_fn().get())
            ->self_.register_hooks(std::make_unique<CopyHooks>());
        z.sum().backward();
        return {y, z, x.grad()};
      },
      {How::checkpoint, How::nested, How::kept});
}

// A program that brings its own engine with default hooks takes over for what it covers.
class CopyingEngine : public torch::autograd::Engine {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return std::make_unique<CopyHooks>();
  }
};

torch::autograd::Engine* before_user = nullptr;
torch::autograd::Engine& users_engine() {
  static auto* engine = new CopyingEngine;  // engines live as long as the process
  return *engine;
}
torch::autograd::Engine& engine_before_user() { return *before_user; }

class UserHooks {
 public:
  UserHooks() {
    before_user = &torch::autograd::Engine::get_default_engine();
    torch::autograd::set_default_engine_stub(users_engine);
  }
  ~UserHooks() { torch::autograd::set_default_engine_stub(engine_before_user); }
};

TEST(Hooks, UserHooksInsideARegionTakeOverForWhatTheyCover) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto x = torch::randn({4}).requires_grad_();
        auto y = wrap(
            [](Tensor t) {
              auto h = t.sin();
              {
                const UserHooks user;
                h = h.exp().cos();
              }
              return h.sin().exp();
            },
            x);
        y.sum().backward();
        return {y, x.grad()};
      },
      {How::checkpoint, How::nested, How::session_recompute_all});
}

TEST(Hooks, WhatUserHooksCoverIsNotForgotten) {
  auto x = torch::randn({64, 64}).requires_grad_();
  CopyHooks::packed = CopyHooks::unpacked = 0;
  const LiveDelta live;
  const StatsDelta delta;
  auto y = checkpoint(
      [](Tensor t) {
        const UserHooks user;
        return t.sin().exp().cos();
      },
      x);
  EXPECT_EQ(CopyHooks::packed, 3);
  EXPECT_EQ(live.bytes(), 4 * 64 * 64 * 4);  // y and the three copies
  y.sum().backward();
  EXPECT_EQ(CopyHooks::unpacked, 3);
  EXPECT_EQ(delta.replayed(), 0);
}

TEST(Hooks, RegisteringHooksOnASavedTensorOfARegionIsAutogradsError) {
  auto x = torch::randn({4}).requires_grad_();
  auto y = checkpoint([](Tensor t) { return t.exp().sin(); }, x);
  auto* node = static_cast<torch::autograd::generated::SinBackward0*>(y.grad_fn().get());
  EXPECT_THROW(node->self_.register_hooks(std::make_unique<CopyHooks>()), c10::Error);
  y.sum().backward();  // and the region is none the worse
  EXPECT_SAME_BITS(x.detach().exp().cos() * x.detach().exp(), x.grad());
}

}  // namespace retrace::test::hooks
