#include "tape/shortcut.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace retrace {
namespace {

// native_batch_norm(input, weight?, bias?, running_mean?, running_var?, training, momentum, eps) -> output, mean,
// invstd
enum Slot : size_t { kInput, kWeight, kBias, kMean, kVariance, kTraining, kMomentum, kEpsilon };

// Over elements that lie like this the kernel folds its parameters into a factor and a summand per channel, which is
// what the shortcut relies on; it has another formula for all others.
bool folds(const at::Tensor& t) {
  return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble) && !t.is_neg() && t.numel() > 0 &&
         (t.is_contiguous() || t.is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace

bool has_shortcut(const Op& op, at::TensorList seen) {
  if (!op.traits->batch_norm || op.fresh.size() != 3 || !op.stack[kTraining].toBool()) return false;
  // A weight that is also a running statistic is written while it is read.
  for (const TensorArg& read : op.args) {
    const auto writes_it = [&](const TensorArg& arg) { return arg.becomes != kNone && arg.value == read.value; };
    if (read.becomes == kNone && std::any_of(op.args.begin(), op.args.end(), writes_it)) return false;
  }
  return std::all_of(seen.begin(), seen.end(),
                     [&](const at::Tensor& t) { return folds(t) && t.scalar_type() == seen.front().scalar_type(); });
}

// In inference mode, with a variance of 1 and an epsilon of 0, the kernel multiplies by the weight it is given and by
// nothing else. So it is given what forward multiplied by: the inverse deviation times the weight.
void take_shortcut(std::vector<c10::IValue>& stack, const std::vector<at::Tensor>& rest) {
  const at::Tensor& mean = rest[0];
  const at::Tensor& invstd = rest[1];
  const bool weighted = stack[kWeight].isTensor() && stack[kWeight].toTensor().defined();
  stack[kWeight] = weighted ? invstd * stack[kWeight].toTensor() : invstd;
  stack[kMean] = mean;
  stack[kVariance] = at::ones_like(mean);
  stack[kTraining] = false;
  stack[kEpsilon] = 0.0;
}

}  // namespace retrace
