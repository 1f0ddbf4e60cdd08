// Long stretches of work under no_grad, of which nothing is saved, are not recorded.
#include <torch/torch.h>

#include <thread>

#include <retrace/retrace.h>

#include "session/ways.h"
#include "support/hostile.h"
#include "testing/hooks.h"

namespace retrace::test {

using torch::Tensor;

namespace {

// After so many operators, while it lives.
class RecordedInVain {
 public:
  explicit RecordedInVain(int64_t ops) : before_(detail::most_in_vain()) { detail::set_most_in_vain(ops); }
  ~RecordedInVain() { detail::set_most_in_vain(before_); }
  RecordedInVain(const RecordedInVain&) = delete;
  RecordedInVain& operator=(const RecordedInVain&) = delete;

 private:
  const int64_t before_;
};

// An image is drawn from noise, step by step.
Tensor sampled(const Layers& layers, int steps) {
  const torch::NoGradGuard no_grad;
  Tensor x = torch::randn({16, 64});
  for (int i = 0; i < steps; ++i) {
    x = x - 0.01 * layers.forward(x);
    x += 0.01 * torch::randn_like(x);
  }
  return x;
}

}  // namespace

TEST(InVain, ASampleThatIsDrawnIsRecordedForSomeHundredOperators) {
  RETRACE_SKIP_IF_HOSTILE();
  const Layers layers;
  Session session(recompute_all());
  int64_t recorded = 0, recorded_of_more = 0;
  for (const auto& [steps, ops] : {std::pair{200, &recorded}, {400, &recorded_of_more}}) {
    const auto step = session.step();
    sampled(layers, steps);
    *ops = session.stats().ops_recorded;
  }
  EXPECT_GE(recorded, detail::most_in_vain());
  EXPECT_LE(recorded, detail::most_in_vain() + 10);
  EXPECT_EQ(recorded, recorded_of_more);
}

TEST(InVain, WhatIsSavedAfterAllIsHeld) {
  const RecordedInVain none(0);
  const Layers layers;
  expect_right_in_every_way([&](int i) -> Tensors {
    torch::manual_seed(i);
    layers.clear();
    const Tensor x = sampled(layers, 3);
    (layers.forward(x) * x).pow(2).mean().backward();
    return layers.gradients();
  });
}

TEST(InVain, WithGradientsOperatorsAreRecordedAgain) {
  RETRACE_SKIP_IF_HOSTILE();
  const RecordedInVain few(5);
  const Layers layers;
  Session session(recompute_all());
  const auto step = session.step();
  sampled(layers, 3);
  const int64_t before = session.stats().ops_recorded;
  layers.forward(torch::ones({16, 64})).sum().backward();
  EXPECT_GT(session.stats().ops_recorded, before + 8);
  EXPECT_GT(session.stats().ops_replayed, 0);
}

// What is forgotten is made from `scale`, which is written while nothing else is recorded.
TEST(InVain, WhatTheTapeKnowsIsNotWrittenUnseen) {
  const RecordedInVain none(0);
  const Layers layers;
  expect_right_in_every_way([&](int i) -> Tensors {
    layers.clear();
    Tensor scale;  // comes from outside, so it cannot be made again
    std::thread([&] { scale = torch::full({256, 64}, 0.5 + i); }).join();
    const Tensor loss = (layers.forward(torch::ones({256, 64})) + scale).tanh().pow(2).mean();
    {
      const torch::NoGradGuard no_grad;
      Tensor other = torch::ones({64});
      other.mul_(2).add_(1);
      scale.mul_(other);
      torch::_unsafe_view(scale, {64, 256}).add_(1);
      at::add_out(scale, scale, other);
    }
    loss.backward();
    return layers.gradients();
  });
}

TEST(InVain, AnOptimizerIsRecordedWhateverItsLength) {
  RETRACE_SKIP_IF_HOSTILE();
  const RecordedInVain few(20);
  const Layers layers(40);
  torch::optim::Adam optimizer(layers.weights);
  Session session(recompute_all());
  const auto step = session.step();
  layers.forward(torch::ones({16, 64})).sum().backward();
  const int64_t before = session.stats().ops_recorded;
  optimizer.step();
  EXPECT_GE(session.stats().ops_recorded, before + 40 * 5) << "its state, too, which the tape has not seen before";
}

}  // namespace retrace::test
