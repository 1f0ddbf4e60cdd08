// Trainings side by side: what each thread records is its own.
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <atomic>

#include <retrace/retrace.h>

#include "support/bits.h"
#include "support/counting.h"
#include "together.h"

namespace retrace::test::threads::trainings {
namespace {

using at::Tensor;

constexpr int kSteps = 12;

// A training with its own weights, session and generator. The default generator is shared by all threads of a process,
// also without Retrace, so dropout draws its mask from the training's own.
class Training {
 public:
  Training(uint64_t seed, Policy policy)
      : generator_(at::detail::createCPUGenerator(seed)), session_(std::move(policy)) {
    for (int k = 0; k < 3; ++k) weights_.push_back(random({8, 8}).requires_grad_());
    input_ = random({16, 8});
    mean_ = torch::zeros({8});
    variance_ = torch::ones({8});
  }

  Tensors run() {
    for (int k = 0; k < kSteps; ++k) step();
    Tensors results = weights_;
    results.push_back(mean_);
    results.push_back(variance_);
    results.push_back(generator_.get_state());
    return results;
  }

 private:
  Tensor random(at::IntArrayRef sizes) { return torch::empty(sizes).normal_(0, 0.5, generator_); }

  Tensor block(const Tensor& weight, const Tensor& x) {
    Tensor h = torch::batch_norm(torch::matmul(x, weight), {}, {}, mean_, variance_, true, 0.1, 1e-5, false);
    h = torch::relu_(h);
    return h * torch::empty_like(h).bernoulli_(0.8, generator_) + x;
  }

  void step() {
    const auto step = session_.step();
    Tensor x = input_;
    for (const Tensor& weight : weights_) x = checkpoint([&](const Tensor& h) { return block(weight, h); }, x);
    x.square().mean().backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& weight : weights_) {
      weight.add_(weight.grad(), -0.1);
      weight.mutable_grad() = Tensor();
    }
  }

  at::Generator generator_;
  Session session_;
  Tensors weights_;
  Tensor input_, mean_, variance_;
};

Tensors train(uint64_t seed, const Policy& policy) { return Training(seed, policy).run(); }

TEST(Trainings, InTwoThreadsAreWhatTheyAreAlone) {
  const Policy policies[] = {recompute_all(), every(2)};
  Tensors alone[2], beside[2];
  for (size_t k = 0; k < 2; ++k) alone[k] = train(k, policies[k]);
  const int64_t before = memory::live_bytes();
  together({[&] { beside[0] = train(0, policies[0]); }, [&] { beside[1] = train(1, policies[1]); }});
  for (size_t k = 0; k < 2; ++k) EXPECT_SAME_BITS(alone[k], beside[k]);
  for (Tensors& results : beside) results.clear();
  EXPECT_EQ(memory::live_bytes(), before);
}

TEST(Trainings, InManyThreadsUnderOnePolicyAreAllTheSame) {
  const Policy policy = custom([](const OpInfo& op) { return op.index % 2 == 0; });
  const Tensors alone = train(5, policy);
  std::vector<Tensors> beside(4);
  std::vector<std::function<void()>> works;
  for (Tensors& results : beside) works.emplace_back([&] { results = train(5, policy); });
  together(works);
  for (const Tensors& results : beside) EXPECT_SAME_BITS(alone, results);
}

TEST(Trainings, GoOnWhileAnotherThreadReadsTheCounters) {
  const Tensors alone = train(3, recompute_all());
  std::atomic<bool> done{false};
  Tensors beside;
  int64_t last = 0;
  together({[&] {
              beside = train(3, recompute_all());
              done = true;
            },
            [&] {
              do {
                const int64_t recorded = stats().ops_recorded;
                EXPECT_GE(recorded, last);
                last = recorded;
                EXPECT_EQ(memory::live().total() >= 0, true);
              } while (!done);
            }});
  EXPECT_SAME_BITS(alone, beside);
  EXPECT_GT(last, 0);
}

TEST(Threads, RecordOnlyWhatTheirOwnScopesCover) {
  const Tensor x = torch::randn({4}).requires_grad_();
  checkpoint([&] {
    const StatsDelta delta;
    elsewhere([&] { const Tensor y = x.exp().sin(); });
    EXPECT_EQ(delta.recorded(), 0);
  });
}

}  // namespace
}  // namespace retrace::test::threads::trainings
