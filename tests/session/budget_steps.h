// Training steps under a budget, and what can be seen of them. What is seen is kept as bytes that the counter does not
// count, so that looking changes no peak.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <models/models.h>
#include <retrace/retrace.h>

#include "support/bits.h"

namespace retrace::test {

// Types, sizes and bytes, in one string.
inline std::string bits_of(const Tensors& tensors) {
  std::string all;
  for (const at::Tensor& t : tensors) {
    if (!t.defined()) {
      all += "undefined;";
      continue;
    }
    all += std::to_string(static_cast<int>(t.scalar_type()));
    for (const int64_t size : t.sizes()) all += "," + std::to_string(size);
    const at::Tensor dense = t.detach().contiguous();
    all.append(static_cast<const char*>(dense.data_ptr()), static_cast<size_t>(dense.nbytes()));
  }
  return all;
}

struct StepSeen {
  std::string bits;  // loss, gradients, buffers
  int64_t peak_bytes = 0;
  Stats stats;
  std::optional<PlanSummary> plan;  // that it followed
};

enum class Update { none, sgd, adam };
enum class Clear { set_to_none, zero };

struct Training {
  std::string model;
  int steps = 4;
  Update update = Update::none;
  Clear clear = Clear::set_to_none;
};

inline std::unique_ptr<torch::optim::Optimizer> make_optimizer(Update update, const models::Model& model) {
  if (update == Update::adam)
    return std::make_unique<torch::optim::Adam>(model.parameters, torch::optim::AdamOptions(1e-3));
  if (update == Update::sgd)
    return std::make_unique<torch::optim::SGD>(model.parameters, torch::optim::SGDOptions(0.01).momentum(0.9));
  return nullptr;
}

inline void clear_gradients(const models::Model& model, Clear clear) {
  for (at::Tensor p : model.parameters) {
    if (clear == Clear::set_to_none) {
      p.mutable_grad() = at::Tensor();
    } else if (p.grad().defined()) {
      const torch::NoGradGuard no_grad;
      p.mutable_grad().zero_();
    }
  }
}

// From fresh weights, plain without a budget. `session` is told when the budgeted one exists.
inline std::vector<StepSeen> train(const Training& training, const std::optional<Budget>& budget,
                                   const SessionOptions& options = {}) {
  const models::Model model = models::make_model(training.model, models::Size::test);
  const auto optimizer = make_optimizer(training.update, model);
  std::optional<Session> session;
  if (budget) session.emplace(*budget, options);
  torch::manual_seed(1);
  std::vector<StepSeen> all;
  for (int i = 0; i < training.steps; ++i) {
    StepSeen seen;
    at::Tensor loss;
    memory::reset_peak();
    {
      const std::unique_ptr<Step> step(session ? new Step(session->step()) : nullptr);
      clear_gradients(model, training.clear);
      loss = model.loss();
      loss.backward();
      if (optimizer) optimizer->step();
      loss = loss.detach();
      seen.peak_bytes = memory::peak_bytes();
      if (session) seen.stats = session->stats();
      if (session) seen.plan = session->plan();
    }
    Tensors results{loss};
    for (const at::Tensor& p : model.parameters) results.push_back(p.grad());
    if (optimizer) results.insert(results.end(), model.parameters.begin(), model.parameters.end());
    results.insert(results.end(), model.buffers.begin(), model.buffers.end());
    results.push_back(generator_state());
    seen.bits = bits_of(results);
    all.push_back(std::move(seen));
  }
  clear_gradients(model, Clear::set_to_none);
  return all;
}

inline int64_t highest_peak(const std::vector<StepSeen>& steps) {
  int64_t peak = 0;
  for (const StepSeen& step : steps) peak = std::max(peak, step.peak_bytes);
  return peak;
}

// The smallest budget that the whole training accepts. Refusals name it; where one names no more than what was given, a
// little more is tried (EveryModel.AcceptsTheSmallestBudgetThatARefusalNames is about that).
inline int64_t smallest_budget(const Training& training) {
  int64_t bytes = 1;
  for (int tries = 0; tries < 12; ++tries) {
    try {
      train(training, budget(bytes));
      return bytes;
    } catch (const InfeasibleBudget& refusal) {
      bytes = std::max(refusal.smallest_bytes, bytes + bytes / 50);
    }
  }
  ADD_FAILURE() << "refused again and again";
  return bytes;
}

inline std::vector<int64_t> budgets_between(int64_t smallest, int64_t largest, int count) {
  std::vector<int64_t> all;
  for (int k = 0; k < count; ++k) all.push_back(smallest + (largest - smallest) * k / (count - 1));
  return all;
}

}  // namespace retrace::test
