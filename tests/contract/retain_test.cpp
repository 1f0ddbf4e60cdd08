// retain_graph and repeated backward.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::retain {

using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;

TEST(Retain, EachOfSeveralOutputsInTurn) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto [a, b] = wrap(
        [](Tensor t) {
          auto h = t.sin().exp();
          return std::pair(h.cos(), h.tanh());
        },
        x);
    a.sum().backward({}, true);
    b.sum().backward({}, true);
    auto twice = x.grad().clone();
    (a * b).sum().backward();
    return {a, b, twice, x.grad()};
  });
}

TEST(Retain, EverySeparateBackwardRebuildsAfresh) {
  auto x = torch::randn({4}).requires_grad_();
  int calls = 0;
  const StatsDelta delta;
  auto y = checkpoint(
      [&](Tensor t) {
        ++calls;
        return t.sin().exp().cos();
      },
      x);
  for (int i = 1; i <= 3; ++i) {
    torch::autograd::grad({y.sum()}, {x}, {}, true);
    EXPECT_EQ(delta.replayed(), 2 * i);
  }
  EXPECT_EQ(calls, 1);
}

TEST(Retain, DisjointGradientCallsThroughOneRegionRebuildOnlyTheirPart) {
  auto x = torch::randn({4}).requires_grad_(), w = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto [a, b] = checkpoint([](Tensor t, Tensor u) { return std::pair(t.sin().exp(), u.cos().exp().tanh()); }, x, w);
  torch::autograd::grad({a.sum()}, {x});
  const int64_t first = delta.replayed();
  torch::autograd::grad({b.sum()}, {w});
  // a and b are alive here, and their own saved results with them: only what lies before needs rebuilding.
  EXPECT_EQ(first, 0);
  EXPECT_EQ(delta.replayed(), 2);
}

// Live bytes each time backward passes between two of the region's operators.
std::vector<int64_t> curve(const Wrap& wrap, bool retain) {
  auto x = torch::randn({64, 64}).requires_grad_();
  std::vector<int64_t> seen;
  const LiveDelta live;
  auto loss = wrap(
                  [&](Tensor t) {
                    for (int i = 0; i < 8; ++i) {
                      t = t.sin();
                      t.register_hook([&](const Tensor&) { seen.push_back(live.bytes()); });
                    }
                    return t;
                  },
                  x)
                  .sum();
  loss.backward({}, retain);
  return seen;
}

TEST(Retain, RebuiltValuesAreReleasedStepByStepOnThePlainCurve) {
  const auto plain = curve(Wrap(How::plain), false);
  const auto ours = curve(Wrap(How::checkpoint), false);
  ASSERT_EQ(plain.size(), 8u);
  // The first hook fires before anything was rebuilt.
  EXPECT_LT(ours[0], plain[0]);
  for (size_t i = 1; i < plain.size(); ++i) EXPECT_EQ(ours[i], plain[i]) << "after " << i << " operators";
}

TEST(Retain, RebuiltValuesDieAsTheyAreConsumedEvenIfTheGraphIsRetained) {
  const auto released = curve(Wrap(How::checkpoint), false);
  const auto retained = curve(Wrap(How::checkpoint), true);
  EXPECT_EQ(released, retained);
}

TEST(Retain, NothingRebuiltSurvivesARetainedBackward) {
  auto x = torch::randn({64, 64}).requires_grad_();
  auto y = checkpoint([](Tensor t) { return t.sin().sin().sin().sin(); }, x);
  const LiveDelta live;
  torch::autograd::grad({y.sum()}, {x}, {}, true);
  EXPECT_EQ(live.bytes(), 0);
  EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
}

TEST(Retain, NothingRebuiltSurvivesAPartialBackward) {
  auto x = torch::randn({64, 64}).requires_grad_(), w = torch::randn({64, 64}).requires_grad_();
  auto y = checkpoint([&](Tensor t) { return (t.sin().sin() * w).sin().sin(); }, x);
  const LiveDelta live;
  torch::autograd::grad({y.sum()}, {w}, {}, true);  // stops at w: the first two sines are never visited
  EXPECT_EQ(live.bytes(), 0);
  EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
}

TEST(Retain, AFullBackwardAfterAPartialOneRefillsWhatWasReleased) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_(), w = torch::randn({4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return (t.sin().exp() * w).cos().exp(); }, x);
    auto partial = torch::autograd::grad({y.sum()}, {w}, {}, true)[0];
    auto again = torch::autograd::grad({y.sum()}, {w, x}, {}, true);
    y.sum().backward();
    return {partial, again[0], again[1], x.grad(), w.grad()};
  });
}

TEST(Retain, ASecondBackwardWithoutRetainingIsAutogradsUsualError) {
  for (const How how : {How::plain, How::checkpoint, How::nested, How::kept}) {
    const Wrap wrap(how);
    auto x = torch::randn({4}).requires_grad_();
    auto loss = wrap([](Tensor t) { return t.sin().exp().cos(); }, x).sum();
    loss.backward();
    try {
      loss.backward();
      FAIL() << "nothing was thrown: " << name(how);
    } catch (const c10::Error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("backward through the graph a second time"), std::string::npos) << text;
    }
  }
}

TEST(Retain, MemoryOfARegionIsFreedByTheFirstNonRetainedBackward) {
  auto x = torch::randn({64, 64}).requires_grad_();
  Tensor y;
  {
    const LiveDelta live;
    y = checkpoint(
        {.policy = keep_all()}, [](Tensor t) { return t.sin().sin().sin(); }, x);
    torch::autograd::grad({y.sum()}, {x});
    EXPECT_EQ(live.bytes(), kUnit);  // y; the graph is still there, its tensors are not
  }
}

TEST(Retain, AResultComputedFromRebuiltValuesOutlivesThem) {
  auto x = torch::randn({4}).requires_grad_();
  auto y = checkpoint([](Tensor t) { return t.exp().sin(); }, x);
  auto g = torch::autograd::grad({y.sum()}, {x}, {}, true)[0];
  auto before = g.clone();
  torch::autograd::grad({y.sum()}, {x}, {}, true);
  EXPECT_SAME_BITS(before, g);
}

}  // namespace retrace::test::retain
