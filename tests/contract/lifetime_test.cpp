// Graph lifetime and memory, measured with the byte counter.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/hostile.h"
#include "support/operators.h"
#include "support/run.h"

namespace retrace::test::lifetime {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;
Tensor unit() { return torch::randn({64, 64}); }

Tensor six_sines(Tensor t) {
  for (int i = 0; i < 6; ++i) t = t.sin();
  return t;
}

TEST(Lifetime, AnUnusedGraphDiesWithItsLastHandle) {
  auto x = unit().requires_grad_();
  const NothingLeaks nothing_leaks;
  for (const How how : {How::checkpoint, How::nested, How::kept}) {
    const Wrap wrap(how);
    { auto y = wrap(six_sines, x); }
    {
      auto y = wrap(six_sines, wrap(six_sines, x));
      auto only_the_node = y.grad_fn();
      y = Tensor();
    }
  }
}

TEST(Lifetime, AnUnusedGraphsKeptTensorsDieWithIt) {
  auto x = unit().requires_grad_();
  const NothingLeaks nothing_leaks;
  auto y = checkpoint({.policy = selective({"aten::sin"})}, six_sines, x);
  y = Tensor();
  EXPECT_EQ(memory::live_bytes(memory::Owner::kept), 0);
}

TEST(Lifetime, ForwardLeavesLessLiveThanThePlainForward) {
  auto x = unit().requires_grad_();
  const auto left = [&](const Wrap& wrap) {
    const LiveDelta live;
    auto y = wrap(six_sines, x);
    return live.bytes();
  };
  EXPECT_EQ(left(Wrap(How::plain)), 6 * kUnit);
  EXPECT_EQ(left(Wrap(How::checkpoint)), kUnit);
  EXPECT_EQ(left(Wrap(How::nested)), kUnit);
}

TEST(Lifetime, KeepingEverythingHoldsWhatThePlainForwardHolds) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_();
  const LiveDelta live;
  auto y = checkpoint({.policy = keep_all()}, six_sines, x);
  EXPECT_EQ(live.bytes(), 6 * kUnit);
}

// A chain of regions, so that forgetting pays.
int64_t peak_of_chain(const Wrap& wrap) {
  auto x = unit().requires_grad_();
  return peak_above_start([&] {
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = wrap(six_sines, y);
    auto loss = y.sum();
    y = Tensor();
    loss.backward();
  });
}

TEST(Lifetime, PeakIsBelowThePlainOne) {
  const int64_t plain = peak_of_chain(Wrap(How::plain));
  const int64_t ours = peak_of_chain(Wrap(How::checkpoint));
  EXPECT_GE(plain, 35 * kUnit);
  EXPECT_LE(ours, plain - 20 * kUnit);
}

TEST(Lifetime, KeepingEverythingHasThePlainPeak) {
  RETRACE_SKIP_IF_HOSTILE();
  EXPECT_LE(peak_of_chain(Wrap(How::kept)), peak_of_chain(Wrap(How::plain)));
}

TEST(Lifetime, ReplayPassesThroughWithoutHoldingWhatNobodyAsksFor) {
  // A long way from the input to the one value that is saved: (t + 1) saves nothing.
  auto x = unit().requires_grad_();
  auto loss = checkpoint(
                  [](Tensor t) {
                    for (int i = 0; i < 20; ++i) t = t + 1;
                    return t.sin();
                  },
                  x)
                  .sum();
  const auto peak = peak_above_start([&] { torch::autograd::grad({loss}, {x}); });
  EXPECT_LE(peak, 5 * kUnit);
}

TEST(Lifetime, InputsStayAliveUntilBackwardAndNoLonger) {
  auto w = unit().requires_grad_();
  const LiveDelta live;
  auto loss = checkpoint([&](Tensor t) { return (t.sin() * w).sum(); }, unit());
  EXPECT_EQ(live.bytes(), kUnit + 4);  // the temporary input and the loss
  loss.backward();
  EXPECT_EQ(live.bytes(), kUnit + 4);  // w's gradient and the loss: the input is gone
}

TEST(Lifetime, AnInputNobodyNeedsForBackwardIsNotHeld) {
  auto w = unit().requires_grad_();
  const LiveDelta live;
  auto y = checkpoint([&](Tensor t) { return t + w; }, unit());
  EXPECT_EQ(live.bytes(), kUnit);  // y only
}

TEST(Lifetime, ABranchWithoutGradientIsNotHeld) {
  auto x = unit().requires_grad_();
  const LiveDelta live;
  auto y = checkpoint(
      {.policy = keep_all()},
      [&](Tensor t) {
        auto unused = (t.detach() * 2).sin();
        return t + 1;
      },
      x);
  EXPECT_EQ(live.bytes(), kUnit);
}

struct Units {
  int64_t held;
  int64_t replayed;
};

// cos -> matmul -> sin -> sum: what forward leaves beside the scalar result, and what backward runs again.
Units trade_off(const std::optional<Policy>& policy) {
  auto x = unit().requires_grad_(), y = unit().requires_grad_();
  const auto body = [](Tensor a, Tensor b) { return torch::mm(a.cos(), b).sin().sum(); };
  const StatsDelta delta;
  const LiveDelta live;
  auto loss = policy ? checkpoint({.policy = *policy}, body, x, y) : body(x, y);
  const int64_t held = live.bytes() - 4;
  EXPECT_EQ(held % kUnit, 0);
  loss.backward();
  return {held / kUnit, delta.replayed()};
}

TEST(Lifetime, MeasuredTradeOff) {
  const Units plain = trade_off(std::nullopt);
  EXPECT_EQ(plain.held, 2);
  EXPECT_EQ(plain.replayed, 0);
  const Units full = trade_off(recompute_all());
  EXPECT_EQ(full.held, 0);
  EXPECT_EQ(full.replayed, 2);  // cos and the matmul
  RETRACE_SKIP_IF_HOSTILE();
  const Units saving_the_matmul = trade_off(selective({"aten::mm"}));
  EXPECT_EQ(saving_the_matmul.held, 1);
  EXPECT_EQ(saving_the_matmul.replayed, 1);  // cos
  const Units keeping_all = trade_off(keep_all());
  EXPECT_EQ(keeping_all.held, 2);
  EXPECT_EQ(keeping_all.replayed, 0);
}

TEST(Lifetime, KeptTensorsAreDroppedAsTheyAreConsumed) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_();
  std::vector<int64_t> kept;
  auto loss = checkpoint(
                  {.policy = selective({"aten::sin"})},
                  [&](Tensor t) {
                    for (int i = 0; i < 4; ++i) {
                      t = t.sin();
                      t.register_hook([&](const Tensor&) { kept.push_back(memory::live_bytes(memory::Owner::kept)); });
                    }
                    return t;
                  },
                  x)
                  .sum();
  loss.backward();
  EXPECT_EQ(kept, (std::vector<int64_t>{3 * kUnit, 2 * kUnit, kUnit, 0}));
}

TEST(Lifetime, PoliciesMayKeepTensorsThatDoNotRequireGrad) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_();
  auto table = unit();
  const LiveDelta live;
  times_run();
  auto loss = checkpoint(
      {.policy = selective({"retrace_test::twice"})}, [&](Tensor t) { return (t * counted_twice(table)).sin().sum(); },
      x);
  EXPECT_EQ(live.bytes(), kUnit + 4);
  loss.backward();
  EXPECT_EQ(times_run(), 1);
}

TEST(Lifetime, TheUsersOwnHandleOnAnIntermediateKeepsItInsteadOfTheTape) {
  auto x = unit().requires_grad_();
  Tensor middle;
  const StatsDelta delta;
  const LiveDelta live;
  auto loss = checkpoint(
      [&](Tensor t) {
        middle = t.sin().sin();
        return middle.sin().sin().sum();
      },
      x);
  EXPECT_EQ(live.bytes(), kUnit + 4);
  loss.backward();
  EXPECT_EQ(delta.replayed(), 2);  // the third sine from `middle`, and the first for the second one's gradient
}

TEST(Lifetime, ValuesTheUserLetsGoOfBeforeBackwardAreRebuilt) {
  auto x = unit().requires_grad_();
  Tensor middle;
  auto loss = checkpoint(
      [&](Tensor t) {
        middle = t.sin().sin();
        return middle.sin().sin().sum();
      },
      x);
  middle = Tensor();
  const StatsDelta delta;
  loss.backward();
  EXPECT_EQ(delta.replayed(), 3);
}

TEST(Lifetime, TheTapeIsSmallBesideItsValues) {
  Session session(recompute_all());
  auto x = torch::randn({4}).requires_grad_();
  {
    const auto step = session.step();
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) y = y.sin();
    y.sum().backward();
  }
  EXPECT_GT(session.stats().tape_bytes, 0);
  EXPECT_LT(session.stats().tape_bytes, 1000 * 1024);
}

TEST(Lifetime, MemoryThatIsNotLibTorchsMayGoOrChangeAfterItWasRead) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    std::vector<float> data(64, 0.5F);
    auto w = torch::ones({64}).requires_grad_();
    const auto y = wrap(
        [&](Tensor t) {
          auto batch = torch::from_blob(data.data(), {64});
          const auto first = batch.sin();
          std::fill(data.begin(), data.end(), 2.0F);
          const auto second = batch.cos();
          std::fill(data.begin(), data.end(), 7.0F);
          return (first * t).exp() * (second * t).exp();
        },
        w);
    y.sum().backward();
    return {y, w.grad()};
  });
}

}  // namespace retrace::test::lifetime
