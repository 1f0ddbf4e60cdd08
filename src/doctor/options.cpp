#include "doctor/options.h"

#include <tuple>

namespace retrace::doctor {
namespace {

// What goes together. LoRA's own state is so small that nothing need be done about it; 4 bits are for frozen weights.
bool sensible(const Means& means) {
  const bool lora = means.lora_rank > 0;
  if (means.four_bit && !lora) return false;
  if (lora && (means.eight_bit || means.offload_optimizer || (means.zero_stage != 0 && means.zero_stage != 3)))
    return false;
  if (means.offload_weights && (means.zero_stage != 0 || lora)) return false;
  // Whoever streams the weights has put away the optimizer's state first.
  return !means.offload_weights || means.offload_optimizer;
}

std::vector<Means> all_means() {
  std::vector<Means> list;
  for (int bits = 0; bits < 128; ++bits) {
    for (int stage = 0; stage <= 3; ++stage) {
      Means means;
      means.zero_stage = stage;
      means.ranks = stage > 0 ? 2 : 1;
      means.offload_optimizer = (bits & 1) != 0;
      means.offload_weights = (bits & 2) != 0;
      means.offload_activations = (bits & 4) != 0;
      means.eight_bit = (bits & 8) != 0;
      means.lora_rank = (bits & 16) != 0 ? kLoraRank : 0;
      means.four_bit = (bits & 32) != 0;
      means.chunked_loss = (bits & 64) != 0;
      if (sensible(means)) list.push_back(means);
    }
  }
  return list;
}

auto order(const Option& o) {
  return std::tuple(o.means.count(), o.means.ranks, o.means.zero_stage, o.moved_bytes(), o.policy.extra);
}

void take(std::optional<Option>& best, const Option& option) {
  if (!best || order(option) < order(*best)) best = option;
}

bool has_moments(const Model& model) { return model.optimizer.moments > 0 && !model.optimizer.eight_bit; }

}  // namespace

Options::Options(const Model& model, double balance, int64_t usable_bytes)
    : model_(model), whole_(model, balance), chunked_(model, balance, kLossChunks), usable_bytes_(usable_bytes) {}

Option Options::evaluate(const Means& means) const {
  Option option{.means = means, .states = states(model_, means)};
  const auto policy = checkpointing(means).cheapest(usable_bytes_ - option.states.total(), means.offload_activations);
  option.fits = policy.has_value();
  option.policy = policy ? *policy : checkpointing(means).leanest(means.offload_activations);
  return option;
}

Option Options::with_fewest_ranks(Means means) const {
  const int64_t least = checkpointing(means).leanest(means.offload_activations).peak_bytes();
  const auto fits = [&](int64_t ranks) {
    means.ranks = ranks;
    return plus(states(model_, means).total(), least) <= usable_bytes_;
  };
  int64_t too_few = 1, enough = kMostRanks;
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  means.ranks = enough;
  return evaluate(means);
}

std::vector<Option> Options::one_by_one() const {
  std::vector<Option> options;
  const auto add = [&](const Means& means) { options.push_back(evaluate(means)); };
  add({});
  add({.chunked_loss = true});
  add({.offload_activations = true});
  if (has_moments(model_)) add({.eight_bit = true});
  if (model_.optimizer.moments > 0) add({.offload_optimizer = true});
  add({.offload_optimizer = true, .offload_weights = true});
  add({.lora_rank = kLoraRank});
  add({.lora_rank = kLoraRank, .four_bit = true});
  for (const int stage : {1, 2, 3}) options.push_back(with_fewest_ranks({.zero_stage = stage, .ranks = 2}));
  return options;
}

Smallest Options::smallest() const {
  Smallest smallest;
  for (const Means& means : all_means()) {
    if (means.eight_bit && !has_moments(model_)) continue;
    const Option option = means.zero_stage > 0 ? with_fewest_ranks(means) : evaluate(means);
    if (!option.fits) continue;
    const bool one = means.zero_stage == 0, all_weights = means.lora_rank == 0;
    if (one && all_weights) take(smallest.all_weights, option);
    if (one && !all_weights) take(smallest.frozen, option);
    if (!one && all_weights) take(smallest.several, option);
  }
  return smallest;
}

}  // namespace retrace::doctor
