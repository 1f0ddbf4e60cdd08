// One way to run a training step: plainly, under a Session's policy, or in checkpointed segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <retrace/session.h>

#include "models/models.h"

namespace retrace::cli {

struct StepResult {
  at::Tensor loss;            // detached
  at::Tensor input_gradient;  // undefined where the input needs none
  int64_t turn_bytes = 0;     // live when forward had ended and backward had not begun
};

// Policies by the names the command line takes: plain, keep_all, recompute_all, every:N, selective,
// selective:OP,OP..., sequential:N, budget:B, eviction:B.
class Runner {
 public:
  // Throws BadInput or UsageError, with what to do, if the name means nothing or does not fit the model.
  Runner(const std::string& policy, const models::Model& model);

  const std::string& name() const { return name_; }

  const Session* session() const { return session_ ? &*session_ : nullptr; }
  std::optional<int64_t> budget_bytes() const { return budget_bytes_; }  // if it has a budget, and in bytes

  // Forward and backward. The first step of a Session verifies what it rebuilds; later ones, which are timed, do not.
  StepResult step(const models::Model& model);

 private:
  StepResult pass(const models::Model& model) const;

  std::string name_;
  int64_t segments_ = 0;  // 0: not sequential
  bool evicts_ = false;   // a session of its own for each step: there is never a plan
  std::optional<Session> session_;
  std::optional<int64_t> budget_bytes_;
};

// `count` budgets in bytes, spread evenly from the smallest that this model can be trained in to the plain peak. Runs
// two steps.
std::vector<std::string> sweep_of_budgets(const models::Model& model, int64_t count);

// What `bench` compares when it is not told.
std::vector<std::string> default_policies(const models::Model& model);

}  // namespace retrace::cli
