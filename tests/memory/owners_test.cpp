// Who holds what: every live byte has exactly one owner.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <atomic>
#include <thread>

#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::owners {

using memory::Owner;
using torch::Tensor;

constexpr int64_t kUnit = 64 * 64 * 4;
Tensor unit() { return torch::randn({64, 64}); }

class OwnerDelta {
 public:
  int64_t operator()(Owner owner) const { return memory::live_bytes(owner) - before_[owner]; }

 private:
  memory::Bytes before_ = memory::live();
};

TEST(Owners, NamesAreThoseOfTheMessages) {
  EXPECT_EQ(memory::name(Owner::weights), "weights");
  EXPECT_EQ(memory::name(Owner::gradients), "gradients");
  EXPECT_EQ(memory::name(Owner::kept), "kept");
  EXPECT_EQ(memory::name(Owner::rebuilt), "rebuilt");
  EXPECT_EQ(memory::name(Owner::other), "other");
}

TEST(Owners, NewMemoryBelongsToOther) {
  const OwnerDelta delta;
  auto a = unit();
  EXPECT_EQ(delta(Owner::other), kUnit);
  EXPECT_EQ(delta(Owner::weights), 0);
}

TEST(Owners, WatchCountsWeightsAndTheirGradients) {
  auto w = unit().requires_grad_();
  const OwnerDelta delta;
  {
    const memory::Watch watch({w});
    EXPECT_EQ(delta(Owner::weights), kUnit);
    w.sin().sum().backward();
    EXPECT_EQ(delta(Owner::gradients), kUnit);
    EXPECT_EQ(delta(Owner::other), -kUnit) << "temporaries are gone, the weight moved";
    w.mutable_grad() = Tensor();
    EXPECT_EQ(delta(Owner::gradients), 0);
    w.sin().sum().backward();
    EXPECT_EQ(delta(Owner::gradients), kUnit);
  }
  EXPECT_EQ(delta(Owner::weights), 0);
  EXPECT_EQ(delta(Owner::gradients), 0);
  EXPECT_EQ(delta(Owner::other), kUnit);
}

TEST(Owners, WatchSeesGradientsTheMomentBackwardWritesThem) {
  auto first = unit().requires_grad_(), last = unit().requires_grad_();
  const memory::Watch watch({first, last});
  const OwnerDelta delta;
  int64_t in_the_middle = -1;
  auto h = first.sin();
  h.register_hook([&](const Tensor&) { in_the_middle = delta(Owner::gradients); });
  (h * last).sum().backward();
  EXPECT_GE(in_the_middle, 0);
  EXPECT_LE(in_the_middle, kUnit);  // last's may be there, first's cannot
  EXPECT_EQ(delta(Owner::gradients), 2 * kUnit);
}

TEST(Owners, WatchHoldsItsTensors) {
  const LiveDelta live;
  {
    const memory::Watch watch({unit().requires_grad_()});
    EXPECT_EQ(live.bytes(), kUnit);
  }
  EXPECT_EQ(live.bytes(), 0);
}

TEST(Owners, WatchAcceptsUndefinedAndNonGradTensors) {
  auto plain = unit();
  const OwnerDelta delta;
  const memory::Watch watch({Tensor(), plain});
  EXPECT_EQ(delta(Owner::weights), kUnit);
}

TEST(Owners, ASessionFindsTheWeightsByItself) {
  auto w = unit().requires_grad_();
  auto x = unit();
  const OwnerDelta delta;
  Session session(keep_all());
  const auto step = session.step();
  auto loss = x.mm(w).sin().sum();
  EXPECT_EQ(delta(Owner::weights), kUnit);
  loss.backward();
  EXPECT_EQ(delta(Owner::gradients), kUnit);
}

TEST(Owners, WhatIsHeldForBackwardIsKept) {
  RETRACE_SKIP_IF_HOSTILE();
  auto x = unit().requires_grad_();
  const OwnerDelta delta;
  Session session(keep_all());
  {
    const auto step = session.step();
    auto loss = x.sin().sin().sin().sum();
    EXPECT_EQ(delta(Owner::kept), 2 * kUnit);
    loss.backward();
  }
  EXPECT_EQ(delta(Owner::kept), 0);
}

TEST(Owners, WhatIsRebuiltIsRebuiltUntilItIsConsumed) {
  auto x = unit().requires_grad_();
  const OwnerDelta delta;
  std::vector<int64_t> rebuilt;
  auto loss = checkpoint(
      [&](Tensor t) {
        for (int i = 0; i < 4; ++i) {
          t = t.sin();
          t.register_hook([&](const Tensor&) { rebuilt.push_back(delta(Owner::rebuilt)); });
        }
        return t.sum();
      },
      x);
  loss.backward();
  EXPECT_EQ(rebuilt, (std::vector<int64_t>{0, 2 * kUnit, kUnit, 0}));
  EXPECT_EQ(delta(Owner::rebuilt), 0);
}

TEST(Owners, AWeightHeldByATapeStaysAWeight) {
  auto w = unit().requires_grad_();
  const memory::Watch watch({w});
  const OwnerDelta delta;
  auto loss = checkpoint(
      {.policy = keep_all()}, [&](Tensor t) { return (t * w).sin().sum(); }, unit());
  EXPECT_EQ(delta(Owner::weights), 0);
  loss.backward();
  EXPECT_EQ(delta(Owner::weights), 0);
}

TEST(Owners, OwnersSumToTheTotalInEveryPhase) {
  auto w = unit().requires_grad_();
  const memory::Watch watch({w});
  const auto check = [] { EXPECT_EQ(memory::live().total(), memory::live_bytes()); };
  check();
  auto loss = checkpoint(
      [&](Tensor t) {
        auto h = (t * w).sin();
        h.register_hook([&](const Tensor&) { check(); });
        return h.exp().sum();
      },
      unit());
  check();
  loss.backward();
  check();
  EXPECT_EQ(memory::at_peak().total(), memory::peak_bytes());
}

TEST(Owners, MovingBetweenOwnersNeverShowsInTheTotal) {
  auto w = unit().requires_grad_();
  const int64_t total = memory::live_bytes();
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    while (!stop) const memory::Watch watch({w});
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto live = memory::live();
    ASSERT_EQ(live.total(), total);
    for (const int64_t bytes : live.by_owner) ASSERT_GE(bytes, 0);
  }
  stop = true;
  mover.join();
}

}  // namespace retrace::test::owners
