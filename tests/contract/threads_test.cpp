// Threads and regions. (Two trainings at once and sanitizer runs: tests/threads.)
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::threads {

using torch::Tensor;

Tensor body(Tensor t, Tensor w) {
  for (int i = 0; i < 10; ++i) t = (t.mm(w)).tanh().exp().sin();
  return torch::dropout(t, 0.3, true) * t;
}

TEST(Threads, RegionThatFansOutToWorkerThreads) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4, 8}).requires_grad_();
    auto w = torch::randn({8, 8}).requires_grad_();
    auto y = wrap(
        [&](Tensor t) {
          auto parts = t.exp().chunk(2);
          Tensors results(2);
          std::vector<std::thread> workers;
          for (int i = 0; i < 2; ++i) workers.emplace_back([&, i] { results[i] = parts[i].mm(w).tanh(); });
          for (auto& worker : workers) worker.join();
          return torch::cat(results).sin();
        },
        x);
    y.sum().backward();
    return {y, x.grad(), w.grad()};
  });
}

TEST(Threads, ThreadsStartedInsideARegionDoNotInheritIt) {
  auto x = torch::randn({64, 64}).requires_grad_();
  checkpoint([&] {
    std::thread([&] {
      const StatsDelta delta;
      const LiveDelta live;
      auto y = x.sin().sin().sin();
      EXPECT_EQ(delta.saved(), 0);
      EXPECT_EQ(delta.recorded(), 0);
      EXPECT_EQ(live.bytes(), 3 * 64 * 64 * 4);
    }).join();
  });
}

TEST(Threads, SeveralThreadsCallBackwardOnOneRetainedRegion) {
  constexpr int kThreads = 4, kRounds = 5;
  torch::manual_seed(1);
  auto x = torch::randn({8, 8}).requires_grad_();
  auto w = torch::randn({8, 8}).requires_grad_();
  torch::manual_seed(2);
  auto plain = torch::autograd::grad({body(x, w).sum()}, {x, w});
  torch::manual_seed(2);
  auto loss = checkpoint(body, x, w).sum();
  std::vector<Tensors> results(kThreads * kRounds);
  std::barrier start(kThreads);
  std::vector<std::thread> workers;
  for (int i = 0; i < kThreads; ++i) {
    workers.emplace_back([&, i] {
      start.arrive_and_wait();
      for (int k = 0; k < kRounds; ++k) results[i * kRounds + k] = torch::autograd::grad({loss}, {x, w}, {}, true);
    });
  }
  for (auto& worker : workers) worker.join();
  for (const auto& result : results) EXPECT_SAME_BITS(plain, result);
  EXPECT_EQ(memory::live_bytes(memory::Owner::rebuilt), 0);
}

TEST(Threads, TwoThreadsUnpackDifferentPartsOfOneRegionAtOnce) {
  torch::manual_seed(1);
  auto x = torch::randn({8, 8}).requires_grad_();
  auto w = torch::randn({8, 8}).requires_grad_();
  const auto pair = [](Tensor t, Tensor u) {
    auto shared = t.mm(u).exp().tanh();
    return std::pair(body(shared, u).sum(), body(shared.sin(), u).sum());
  };
  for (int round = 0; round < 5; ++round) {
    torch::manual_seed(2);
    auto [plain_a, plain_b] = pair(x, w);
    const auto expected_a = torch::autograd::grad({plain_a}, {x, w}, {}, true);
    const auto expected_b = torch::autograd::grad({plain_b}, {x, w}, {}, true);
    torch::manual_seed(2);
    auto [a, b] = checkpoint(pair, x, w);
    Tensors results_a, results_b;
    std::barrier start(2);
    const auto ask = [&](Tensor& loss, Tensors& results) {
      start.arrive_and_wait();
      results = torch::autograd::grad({loss}, {x, w}, {}, true);
    };
    std::thread other([&, &b = b] { ask(b, results_b); });
    ask(a, results_a);
    other.join();
    EXPECT_SAME_BITS(expected_a, results_a);
    EXPECT_SAME_BITS(expected_b, results_b);
  }
}

TEST(Threads, BackwardMayRunOnAnotherThreadThanForward) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({8, 8}).requires_grad_();
    auto w = torch::randn({8, 8}).requires_grad_();
    auto loss = wrap(body, x, w).sum();
    std::thread([&] { loss.backward(); }).join();
    return {loss, x.grad(), w.grad()};
  });
}

TEST(Threads, RegionsOnTwoThreadsAreIndependent) {
  auto x = torch::randn({64, 64}).requires_grad_();
  std::barrier both(2);
  const auto work = [&] {
    checkpoint([&] {
      both.arrive_and_wait();  // both regions are open now
      auto y = x.sin().sin();
      both.arrive_and_wait();
    });
    auto mine = checkpoint([&] { return x.exp().sin(); });
    EXPECT_SAME_BITS((x.exp().cos() * x.exp()).detach(), torch::autograd::grad({mine.sum()}, {x})[0]);
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Threads, TheLastHandleMayBeDroppedOnAnotherThread) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const NothingLeaks nothing_leaks;
  auto y = checkpoint(
      {.policy = keep_all()}, [](Tensor t) { return t.sin().sin().sin(); }, x);
  std::thread([moved = std::move(y)]() mutable { moved = Tensor(); }).join();
}

TEST(Threads, ReentrantBackwardDeeperThanTheEnginesLimit) {
  // Past 60 levels the engine moves nested backwards to threads of its own: regions are then unpacked there.
  struct Deep : torch::autograd::Function<Deep> {
    static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, int64_t depth) {
      context->saved_data["depth"] = depth;
      context->save_for_backward({x});
      return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
      const int64_t depth = context->saved_data["depth"].toInt();
      if (depth == 0) return {gradients[0], Tensor()};
      const at::AutoGradMode grad(true);
      auto x = context->get_saved_variables()[0].detach().requires_grad_();
      auto y = checkpoint([&](Tensor t) { return Deep::apply(t.sin().exp(), depth - 1); }, x);
      return {torch::autograd::grad({y.sum()}, {x})[0] * gradients[0], Tensor()};
    }
  };
  auto x = torch::rand({4}).requires_grad_();
  const LiveDelta live;
  {
    auto y = checkpoint([](Tensor t) { return Deep::apply(t.exp(), 80); }, x);
    auto g = torch::autograd::grad({y.sum()}, {x})[0];
    EXPECT_TRUE(g.isfinite().all().item<bool>());
  }
  // The engine's threads let go of their last task a moment after the result is there, in the plain program too.
  for (int i = 0; i < 10'000 && live.bytes() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(live.bytes(), 0);
}

}  // namespace retrace::test::threads
