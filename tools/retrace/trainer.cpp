#include "trainer.h"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>

#include <retrace/sequential.h>

namespace retrace::cli {

namespace {

int64_t other_bytes() {
  const memory::Bytes live = memory::live();
  return live.total() - live[memory::Owner::weights] - live[memory::Owner::gradients];
}

}  // namespace

Trainer::Trainer(const models::GptShape& shape, int64_t vocabulary, Training how, int64_t budget_bytes)
    : how_(how),
      budget_bytes_(budget_bytes),
      resident_bytes_(-memory::live_bytes()),  // completed below, when the weights are there
      gpt_(models::make_text_gpt(shape, vocabulary)),
      optimizer_(gpt_.model.parameters, torch::optim::AdamWOptions(3e-3)),
      watch_(gpt_.model.parameters) {
  resident_bytes_ += memory::live_bytes();
}

at::Tensor Trainer::forward() {
  const models::Model& model = gpt_.model;
  if (how_ != Training::every_block) return model.loss();
  const auto segments = static_cast<int64_t>(model.layers.size());
  return model.tail(checkpoint_sequential(model.layers, segments, model.input()));
}

// A budget is for all that is live in the process: what other trainings hold comes on top of ours.
void Trainer::begin_session(int64_t foreign_bytes) {
  if (how_ == Training::within_budget) session_.emplace(budget(budget_bytes_ + foreign_bytes));
  // 100 % of the plain peak: every step runs as the plain program does, and is measured.
  if (how_ == Training::measured)
    session_.emplace(budget("100%"), SessionOptions{.verify = Verify::never, .planning = Planning::foreground});
  if (!session_) return;
  Names names;
  for (size_t i = 0; i < model().parameters.size(); ++i) names.add(model().parameters[i], model().parameter_names[i]);
  session_->name(names);
}

void Trainer::step(const TextBatch& batch, uint64_t seed, int64_t foreign_bytes) {
  if (!session_) begin_session(foreign_bytes);
  gpt_.feed(batch.tokens, batch.targets);
  at::manual_seed(seed);
  const int64_t before_bytes = memory::live_bytes(), before_other_bytes = other_bytes();
  memory::reset_peak();
  const auto begin = std::chrono::steady_clock::now();
  Step step;
  if (session_) step = session_->step();
  {
    const at::Tensor loss = forward();
    loss.backward();
    loss_ = loss.item<double>();
  }
  const int64_t step_activation_bytes = memory::activation_peak_bytes() - before_other_bytes;
  optimizer_.step();
  step.end();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  seconds_.push_back(taken.count());
  activation_bytes_ = std::max(activation_bytes_, step_activation_bytes);
  peak_bytes_ = std::max(peak_bytes_, memory::peak_bytes() - foreign_bytes);
  resident_bytes_ += memory::live_bytes() - before_bytes - memory::live_bytes(memory::Owner::gradients);
}

void Trainer::drop_gradients() {
  for (const at::Tensor& parameter : model().parameters) parameter.mutable_grad().reset();
}

}  // namespace retrace::cli
