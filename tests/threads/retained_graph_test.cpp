// Several threads in one tape: backward passes at once, and backward while forward goes on.
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/bits.h"
#include "support/counting.h"
#include "together.h"

namespace retrace::test::threads::retained_graph {
namespace {

using at::Tensor;

constexpr size_t kThreads = 4;
constexpr int kRepeats = 8;

struct Net {
  Tensor x = torch::randn({6, 5}).requires_grad_();
  Tensor w = torch::randn({5, 5}).requires_grad_();
  Tensor mean = torch::zeros({5});
  Tensor variance = torch::ones({5});

  Tensor block(const Tensor& h) {
    Tensor y = torch::batch_norm(torch::matmul(h, w), {}, {}, mean, variance, true, 0.1, 1e-5, false);
    y = torch::relu_(y);
    return torch::dropout(y, 0.4, true).tanh() + h.sin();
  }
};

Tensors gradients(const Tensor& loss, const Net& net) {
  return torch::autograd::grad({loss}, {net.x, net.w}, {}, /*retain_graph=*/true);
}

// Builds a graph with `wrap` around each block, then has several threads differentiate it at once, each several times.
template <class Build>
void expect_every_thread_gets(const Tensors& expected, const Net& net, Build build) {
  torch::manual_seed(9);
  const Tensor loss = build();
  const Tensor generator = generator_state();
  const Tensor mean = net.mean.clone();
  std::vector<std::vector<Tensors>> results(kThreads);
  std::vector<std::function<void()>> works;
  for (auto& mine : results) {
    works.emplace_back([&] {
      for (int k = 0; k < kRepeats; ++k) mine.push_back(gradients(loss, net));
    });
  }
  together(works);
  for (const auto& of_one_thread : results) {
    for (const Tensors& result : of_one_thread) ASSERT_SAME_BITS(expected, result);
  }
  EXPECT_SAME_BITS(generator, generator_state());
  EXPECT_SAME_BITS(mean, net.mean);
}

Tensors plain_gradients(Net& net) {
  torch::manual_seed(9);
  Tensor h = net.x;
  for (int k = 0; k < 3; ++k) h = net.block(h);
  return gradients(h.square().sum(), net);
}

TEST(RetainedGraph, GivesEveryThreadTheSameGradients) {
  Net net;
  const Tensors expected = plain_gradients(net);
  const Policy policies[] = {recompute_all(), keep_all(), custom([](const OpInfo& op) { return op.index % 3 == 0; })};
  for (const Policy& policy : policies) {
    SCOPED_TRACE(policy.name());
    expect_every_thread_gets(expected, net, [&] {
      Tensor h = net.x;
      for (int k = 0; k < 3; ++k) h = checkpoint(CheckpointOptions{policy}, [&] { return net.block(h); });
      return h.square().sum();
    });
  }
}

TEST(RetainedGraph, OfOneRegionIsRebuiltByManyThreadsAtOnce) {
  Net net;
  const Tensors expected = plain_gradients(net);
  const StatsDelta delta;
  expect_every_thread_gets(expected, net, [&] {
    return checkpoint([&] {
      Tensor h = net.x;
      for (int k = 0; k < 3; ++k) h = net.block(h);
      return h.square().sum();
    });
  });
  EXPECT_GT(delta.replayed(), 0);
}

TEST(RetainedGraph, OfAWholeStepGivesEveryThreadTheSameGradients) {
  Net net;
  const Tensors expected = plain_gradients(net);
  for (const Policy& policy : {recompute_all(), every(1), every(2)}) {
    SCOPED_TRACE(policy.name());
    Session session(policy);
    expect_every_thread_gets(expected, net, [&] {
      const auto step = session.step();
      Tensor h = net.x;
      for (int k = 0; k < 3; ++k) h = net.block(h);
      return h.square().sum();
    });
  }
}

TEST(RetainedGraph, CanBeDifferentiatedElsewhereWhileTheStepGoesOn) {
  Net net;
  const auto first_part = [&] { return net.block(net.block(net.x)); };
  const auto second_part = [&](Tensor h) {
    for (int k = 0; k < 20; ++k) h = (h * 1.01).tanh() + net.x.cos();
    return h.square().sum();
  };
  torch::manual_seed(4);
  const Tensor plain_middle = first_part();
  const Tensors expected_early = gradients(plain_middle.sum(), net);
  const Tensors expected_late = gradients(second_part(plain_middle), net);

  Session session(recompute_all());
  std::vector<Tensors> early;
  Tensors late;
  torch::manual_seed(4);
  {
    const auto step = session.step();
    const Tensor middle = first_part();
    const Tensor early_loss = middle.sum();
    std::thread other([&] {
      for (int k = 0; k < kRepeats; ++k) early.push_back(gradients(early_loss, net));
    });
    for (int k = 0; k < kRepeats; ++k) late = gradients(second_part(middle), net);
    other.join();
  }
  for (const Tensors& each : early) EXPECT_SAME_BITS(expected_early, each);
  EXPECT_SAME_BITS(expected_late, late);
}

TEST(RetainedGraph, OfManyThreadsLeavesNothingBehind) {
  Net net;
  plain_gradients(net);
  const NothingLeaks nothing_leaks;
  const Tensor loss = checkpoint([&] { return net.block(net.block(net.x)).square().sum(); });
  std::vector<std::function<void()>> works(kThreads, [&] { gradients(loss, net); });
  together(works);
}

}  // namespace
}  // namespace retrace::test::threads::retained_graph
