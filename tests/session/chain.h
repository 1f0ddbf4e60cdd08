// A chain of products under a budget: the model, a piece of work on it, and steps whose gradients and peak are checked.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include <retrace/retrace.h>

#include "session/budget_steps.h"

namespace retrace::test {

// Backward needs every factor.
struct Chain {
  static constexpr int64_t kUnit = 64 * 64 * 4;  // bytes of one weight, and of one result for an input of 64 rows

  std::vector<at::Tensor> weights;
  explicit Chain(int layers = 8) {
    torch::manual_seed(3);
    for (int i = 0; i < layers; ++i) weights.push_back((torch::randn({64, 64}) * 0.1).requires_grad_());
  }
  at::Tensor input(int64_t rows = 64) const {
    torch::manual_seed(rows);
    return torch::randn({rows, 64});
  }
  at::Tensor loss(at::Tensor x) const {
    for (const at::Tensor& w : weights) x = x.mm(w).tanh().exp();
    return x.square().mean();
  }
  void clear() const {
    for (at::Tensor w : weights) w.mutable_grad() = at::Tensor();
  }
  std::string gradients() const {
    Tensors all;
    for (const at::Tensor& w : weights) all.push_back(w.grad());
    return bits_of(all);
  }
};

// What is done to a chain in each step, and what that takes without Retrace and at least.
class Work {
 public:
  Work(const Chain& chain, std::function<void()> run) : chain_(chain), run_(std::move(run)) {
    chain_.clear();
    memory::reset_peak();
    run_();
    plain_peak_bytes_ = memory::peak_bytes();
    gradients_ = chain_.gradients();
    chain_.clear();
  }

  int64_t plain_peak() const { return plain_peak_bytes_; }
  const std::string& gradients() const { return gradients_; }

  // As a refusal says.
  int64_t smallest() const {
    const int64_t bytes = smallest_of(run_);
    chain_.clear();
    return bytes;
  }
  static int64_t smallest_of(const std::function<void()>& run) {
    Session session(budget(1));
    try {
      const auto step = session.step();
      run();
    } catch (const InfeasibleBudget& refusal) {
      return refusal.smallest_bytes;
    }
    ADD_FAILURE() << "a budget of one byte was not refused";
    return 0;
  }

  // A budget between the smallest (0) and what it takes without Retrace (1).
  int64_t between(double share) const {
    const int64_t low = smallest();
    return low + static_cast<int64_t>(share * static_cast<double>(plain_peak_bytes_ - low));
  }

  // One step; checks gradients and peak. The number of operators replayed.
  int64_t step(Session& session, int64_t budget_bytes) const {
    chain_.clear();
    memory::reset_peak();
    {
      const auto step = session.step();
      run_();
    }
    EXPECT_LE(memory::peak_bytes(), budget_bytes);
    EXPECT_TRUE(gradients_ == chain_.gradients());
    chain_.clear();
    return session.stats().ops_replayed;
  }

  // Some steps of a new session under a budget; what they replayed, one by one.
  std::vector<int64_t> steps(int64_t budget_bytes, int count) const {
    Session session(budget(budget_bytes));
    std::vector<int64_t> replayed;
    for (int i = 0; i < count; ++i) {
      SCOPED_TRACE("budget of " + std::to_string(budget_bytes) + ", step " + std::to_string(i + 1));
      replayed.push_back(step(session, budget_bytes));
    }
    return replayed;
  }

 private:
  const Chain& chain_;
  const std::function<void()> run_;
  std::string gradients_;
  int64_t plain_peak_bytes_ = 0;
};

}  // namespace retrace::test
