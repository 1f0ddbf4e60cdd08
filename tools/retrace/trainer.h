// One training of the demo's GPT, plain or checkpointed, and what it took.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <torch/optim/adamw.h>

#include <retrace/memory.h>

#include "demo_text.h"
#include "models/gpt.h"

namespace retrace::cli {

class Trainer {
 public:
  Trainer(const models::GptShape& shape, int64_t vocabulary, bool checkpointed);

  // Forward, backward and the optimizer's step, dropout drawn from `seed`. Gradients stay for comparing until
  // drop_gradients(). `foreign_bytes`: what other trainings hold, not to be counted here.
  void step(const TextBatch& batch, uint64_t seed, int64_t foreign_bytes);
  void drop_gradients();

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

  bool checkpointed_;
  int64_t resident_bytes_;
  models::TextGpt gpt_;
  torch::optim::AdamW optimizer_;
  memory::Watch watch_;
  double loss_ = 0;
  std::vector<double> seconds_;
  int64_t peak_bytes_ = 0;
  int64_t activation_bytes_ = 0;
};

}  // namespace retrace::cli
