// Things that begin on one thread and end on another.
#include <gtest/gtest.h>

#include <ATen/ThreadLocalState.h>
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/bits.h"
#include "support/counting.h"
#include "together.h"

namespace retrace::test::threads::across {
namespace {

using at::Tensor;

Tensor chain(Tensor h) {
  for (int k = 0; k < 4; ++k) h = (h.sin() * h).tanh() + h;
  return h;
}

Tensor gradient_of_chain(const Tensor& x) { return torch::autograd::grad({chain(x).sum()}, {x})[0]; }

Tensor leaf() { return torch::randn({5, 3}).requires_grad_(); }

TEST(AcrossThreads, AGraphBuiltOnOneIsDifferentiatedOnAnother) {
  const Tensor x = leaf();
  const Tensor expected = gradient_of_chain(x);
  Session session(recompute_all());
  Tensor from_region, from_step;
  elsewhere([&] { from_region = checkpoint(chain, x).sum(); });
  elsewhere([&] {
    const auto step = session.step();
    from_step = chain(x).sum();
  });
  const StatsDelta delta;
  EXPECT_SAME_BITS(expected, torch::autograd::grad({from_region}, {x})[0]);
  EXPECT_SAME_BITS(expected, torch::autograd::grad({from_step}, {x})[0]);
  EXPECT_GT(delta.replayed(), 0);
}

TEST(AcrossThreads, AGraphBuiltHereIsDifferentiatedThereInsideAnotherStep) {
  const Tensor x = leaf();
  const Tensor expected = gradient_of_chain(x);
  const Tensor loss = checkpoint(chain, x).sum();
  Tensor result;
  elsewhere([&] {
    Session session(every(1));
    const auto step = session.step();
    result = torch::autograd::grad({loss}, {x})[0];
  });
  EXPECT_SAME_BITS(expected, result);
}

TEST(AcrossThreads, AGraphIsDroppedOnAnother) {
  const Tensor x = leaf();
  gradient_of_chain(x);
  const NothingLeaks nothing_leaks;
  Tensor loss = checkpoint(chain, x).sum();
  elsewhere([&] { loss.reset(); });
  elsewhere([&] { loss = checkpoint(chain, x).sum(); });
  loss.reset();
}

TEST(AcrossThreads, AGraphIsDroppedOnAnotherWhileItsStepIsOpen) {
  const Tensor x = leaf();
  const Tensor expected = gradient_of_chain(x);
  const NothingLeaks nothing_leaks;
  Session session(recompute_all());
  const auto step = session.step();
  for (int k = 0; k < 10; ++k) {
    Tensor dropped = chain(x).sum();
    std::thread other([&] { dropped.reset(); });
    const Tensor loss = chain(x).sum();
    other.join();
    ASSERT_SAME_BITS(expected, torch::autograd::grad({loss}, {x})[0]);
  }
}

TEST(AcrossThreads, ASessionStepsOnAnotherThanItWasMadeOn) {
  const Tensor x = leaf();
  const Tensor expected = gradient_of_chain(x);
  Session session(recompute_all());
  Tensor result;
  elsewhere([&] {
    const auto step = session.step();
    result = gradient_of_chain(x);
  });
  EXPECT_SAME_BITS(expected, result);
  EXPECT_EQ(session.stats().steps, 1);
  EXPECT_GT(session.stats().ops_replayed, 0);
  const auto step = session.step();
  EXPECT_SAME_BITS(expected, gradient_of_chain(x));
  EXPECT_EQ(session.stats().steps, 2);
}

TEST(AcrossThreads, ASessionRefusesASecondStepWhileOneIsOpenElsewhere) {
  Session session(recompute_all());
  {
    const auto step = session.step();
    elsewhere([&] { EXPECT_THROW(const auto second = session.step(), UsageError); });
  }
  elsewhere([&] { EXPECT_NO_THROW(const auto later = session.step()); });
}

TEST(AcrossThreads, AStepEndedOnAnotherStopsRecordingOnItsOwn) {
  const Tensor x = leaf();
  const Tensor expected = gradient_of_chain(x);
  Session session(recompute_all());
  auto step = std::unique_ptr<Step>(new Step(session.step()));
  const Tensor loss = chain(x).sum();
  elsewhere([&] { step.reset(); });
  const StatsDelta delta;
  const Tensor outside = chain(x);
  EXPECT_EQ(delta.recorded(), 0);
  EXPECT_SAME_BITS(expected, torch::autograd::grad({loss}, {x})[0]);
  EXPECT_THROW(const auto refused = session.step(), UsageError);
  EXPECT_NO_THROW(const auto next = session.step());
}

// As data-parallel replicas do: each worker computes its share of the batch. What workers run is not recorded.
template <class Start>
Tensor in_replicas(const Tensor& x, Start start) {
  std::vector<Tensor> parts(3);
  const Tensor doubled = x.exp();
  std::vector<std::thread> workers;
  for (size_t k = 0; k < parts.size(); ++k) {
    workers.emplace_back([&, k, enter = start()] {
      [[maybe_unused]] const auto entered = enter();
      parts[k] = chain(doubled * static_cast<double>(k + 1));
    });
  }
  for (auto& worker : workers) worker.join();
  return (torch::stack(parts).sin() * doubled).sum();
}

template <class Start>
void expect_replicas_agree(Start start) {
  const Tensor x = leaf();
  const Tensor expected = torch::autograd::grad({in_replicas(x, start)}, {x})[0];
  const Tensor loss = checkpoint([&] { return in_replicas(x, start); });
  EXPECT_SAME_BITS(expected, torch::autograd::grad({loss}, {x}, {}, true)[0]);
  Session session(recompute_all());
  const auto step = session.step();
  EXPECT_SAME_BITS(expected, torch::autograd::grad({in_replicas(x, start)}, {x})[0]);
}

TEST(AcrossThreads, ARegionFansOutToWorkers) {
  expect_replicas_agree([] { return [] { return 0; }; });
}

// LibTorch's own thread pools hand their workers the caller's thread-local state, dispatch keys among it.
TEST(AcrossThreads, ARegionFansOutToWorkersThatInheritItsThreadLocalState) {
  expect_replicas_agree(
      [] { return [state = at::ThreadLocalState()] { return std::make_unique<at::ThreadLocalStateGuard>(state); }; });
}

TEST(AcrossThreads, WorkersOpenRegionsOfTheirOwnInsideARegion) {
  const Tensor x = leaf();
  const auto fan_out = [&](bool checkpointed) {
    std::vector<Tensor> parts(3);
    std::vector<std::function<void()>> works;
    for (Tensor& part : parts) works.emplace_back([&] { part = checkpointed ? checkpoint(chain, x) : chain(x); });
    together(works);
    return torch::stack(parts).sin().sum();
  };
  const Tensor expected = torch::autograd::grad({fan_out(false)}, {x})[0];
  const Tensor loss = checkpoint([&] { return fan_out(true); });
  EXPECT_SAME_BITS(expected, torch::autograd::grad({loss}, {x})[0]);
}

}  // namespace
}  // namespace retrace::test::threads::across
