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

Trainer::Trainer(const models::GptShape& shape, int64_t vocabulary, bool checkpointed)
    : checkpointed_(checkpointed),
      resident_bytes_(-memory::live_bytes()),  // completed below, when the weights are there
      gpt_(models::make_text_gpt(shape, vocabulary)),
      optimizer_(gpt_.model.parameters, torch::optim::AdamWOptions(3e-3)),
      watch_(gpt_.model.parameters) {
  resident_bytes_ += memory::live_bytes();
}

at::Tensor Trainer::forward() {
  const models::Model& model = gpt_.model;
  if (!checkpointed_) return model.loss();
  const auto segments = static_cast<int64_t>(model.layers.size());
  return model.tail(checkpoint_sequential(model.layers, segments, model.input()));
}

void Trainer::step(const TextBatch& batch, uint64_t seed, int64_t foreign_bytes) {
  gpt_.feed(batch.tokens, batch.targets);
  at::manual_seed(seed);
  const int64_t before_bytes = memory::live_bytes(), before_other_bytes = other_bytes();
  memory::reset_peak();
  const auto begin = std::chrono::steady_clock::now();
  {
    const at::Tensor loss = forward();
    loss.backward();
    loss_ = loss.item<double>();
  }
  const int64_t step_activation_bytes = memory::activation_peak_bytes() - before_other_bytes;
  optimizer_.step();
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
