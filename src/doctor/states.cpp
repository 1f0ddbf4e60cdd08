#include "doctor/states.h"

#include <algorithm>

#include <fmt/format.h>

namespace retrace::doctor {
namespace {

constexpr int64_t kScaleBlock = 256;  // 8-bit moments share a float32 scale

int64_t moment_bytes(const Model& model, int64_t weights, bool eight_bit) {
  if (!eight_bit) return times(weights, per_weight(model).moments);
  const int64_t values = times(weights, model.optimizer.moments);
  return plus(values, times((values + kScaleBlock - 1) / kScaleBlock, 4));
}

int64_t optimizer_bytes(const Model& model, int64_t weights, bool eight_bit) {
  return plus(times(weights, per_weight(model).copy), moment_bytes(model, weights, eight_bit));
}

// QLoRA: 4 bits, and 0.127 for the scales, which are quantized themselves. A matrix is widened while it is used.
int64_t nf4_bytes(int64_t weights) { return plus(times(weights, 4127) / 8000, 1); }

int64_t frozen_bytes(const Model& model, const Parameters& p, bool four_bit) {
  const int64_t e = model.dtype.bytes;
  if (!four_bit) return times(p.total, e);
  const int64_t matrices = times(p.matrices_block, model.layers);
  return plus(plus(times(p.total - matrices, e), nf4_bytes(matrices)), times(times(model.hidden, model.ffn), e));
}

// This block and the one fetched ahead, or the largest matrix outside them.
int64_t gathered_weights(const Model& model, const Parameters& p) {
  return times(std::max(times(2, p.block), p.embedding), model.dtype.bytes);
}

int64_t share(int64_t bytes, int64_t ranks) { return (bytes + ranks - 1) / ranks; }

void split(States& s, const Model& model, const Parameters& p, const Means& means) {
  if (means.zero_stage >= 1) s.optimizer = share(s.optimizer, means.ranks);
  if (means.zero_stage >= 2) {
    s.gradients = share(s.gradients, means.ranks);
    if (means.lora_rank == 0) s.gathered = plus(s.gathered, times(p.block, model.dtype.bytes));
  }
  if (means.zero_stage >= 3) {
    s.weights = share(s.weights, means.ranks);
    s.gathered = plus(s.gathered, gathered_weights(model, p));
  }
}

void offload(States& s, const Model& model, const Parameters& p, const Means& means) {
  if (means.offload_optimizer) {
    s.host = plus(s.host, s.optimizer);
    s.moved = plus(s.moved, plus(s.gradients, s.weights));
    s.optimizer = 0;
  }
  if (means.offload_weights) {
    s.host = plus(s.host, plus(s.weights, s.gradients));
    s.moved = plus(times(2, s.weights), s.gradients);  // forward and backward read the weights, the update is there
    s.weights = s.gradients = 0;
    s.gathered = plus(gathered_weights(model, p), times(p.block, model.dtype.bytes));
  }
}

}  // namespace

int Means::count() const {
  return (zero_stage > 0) + offload_optimizer + offload_weights + offload_activations + eight_bit + (lora_rank > 0) +
         four_bit + chunked_loss - (offload_weights && offload_optimizer);
}

std::string Means::text() const {
  std::string text;
  const auto add = [&](bool used, const std::string& what) {
    if (used) text += (text.empty() ? "" : " + ") + what;
  };
  add(lora_rank > 0, fmt::format("LoRA of rank {}", lora_rank));
  add(four_bit, "4-bit frozen weights");
  add(zero_stage > 0, fmt::format("ZeRO-{} over {} ranks", zero_stage, ranks));
  add(eight_bit, "8-bit optimizer state");
  add(offload_optimizer && !offload_weights, "optimizer state to host");
  add(offload_weights, "all states to host");
  add(offload_activations, "kept activations to host");
  add(chunked_loss, "loss in chunks");
  return text.empty() ? "checkpointing alone" : text;
}

int64_t States::total() const { return plus(plus(weights, gradients), plus(optimizer, gathered)); }

PerWeight per_weight(const Model& model) {
  const int64_t e = model.dtype.bytes;
  const bool mixed = e != 4 && !model.pure;
  PerWeight bytes{.weight = e, .gradient = e};
  bytes.copy = mixed && model.optimizer.moments > 0 ? 4 : 0;
  bytes.moments = model.optimizer.moments * (model.optimizer.eight_bit ? 1 : model.pure ? e : 4);
  return bytes;
}

int64_t lora_parameters(const Model& model, int64_t rank) {
  const int64_t h = model.hidden, k = model.kv_width(), f = model.ffn;
  const int64_t ends = model.family == Family::llama
                           ? 2 * h + 2 * (h + k) + 2 * h + 3 * (h + f)  // q; k, v; o; gate, up, down
                           : 4 * h + 2 * h + 2 * (h + f);               // qkv; out; up, down
  return times(times(rank, ends), model.layers);
}

States states(const Model& model, const Means& means) {
  const Parameters p = parameters(model);
  const int64_t e = model.dtype.bytes;
  const bool lora = means.lora_rank > 0;
  const int64_t trained = lora ? lora_parameters(model, means.lora_rank) : p.total;
  States s;
  s.weights = lora ? plus(frozen_bytes(model, p, means.four_bit), times(trained, e)) : times(trained, e);
  s.gradients = times(trained, e);
  s.optimizer = optimizer_bytes(model, trained, means.eight_bit || model.optimizer.eight_bit);
  split(s, model, p, means);
  offload(s, model, p, means);
  return s;
}

}  // namespace retrace::doctor
