// One training of the demo's GPT: plain, with every block checkpointed, or within a budget; and what it took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/optim/adamw.h>

#include <retrace/memory.h>
#include <retrace/session.h>

#include "demo_text.h"
#include "models/gpt.h"

namespace retrace::cli {

enum class Training {
  plain,
  measured,  // as plain, recorded for a tape
  every_block,
  within_budget,
};

class Trainer {
 public:
  // `budget_bytes`: of a training within a budget, what it may have live itself.
  Trainer(const models::GptShape& shape, int64_t vocabulary, Training how, int64_t budget_bytes = 0);

  // Forward, backward and the optimizer's step, dropout drawn from `seed`. Gradients stay for comparing until
  // drop_gradients(). `foreign_bytes`: what other trainings hold, not to be counted here.
  void step(const TextBatch& batch, uint64_t seed, int64_t foreign_bytes);
  void drop_gradients();

  void save_tape(const std::string& path) const { session_->save_tape(path); }  // of a measured training

  const models::Model& model() const { return gpt_.model; }
  double loss() const { return loss_; }
  const std::vector<double>& seconds() const { return seconds_; }
  int64_t resident_bytes() const { return resident_bytes_; }  // weights, buffers, optimizer state: held between steps
  int64_t peak_bytes() const { return peak_bytes_; }          // the most it ever had live
  int64_t activation_bytes() const {
    return activation_bytes_;
  }  // the most a step had live beside weights and gradients

 private:
  at::Tensor forward();
  void begin_session(int64_t foreign_bytes);

  Training how_;
  int64_t budget_bytes_;
  int64_t resident_bytes_;
  models::TextGpt gpt_;
  torch::optim::AdamW optimizer_;
  memory::Watch watch_;
  std::optional<Session> session_;
  double loss_ = 0;
  std::vector<double> seconds_;
  int64_t peak_bytes_ = 0;
  int64_t activation_bytes_ = 0;
};

}  // namespace retrace::cli
