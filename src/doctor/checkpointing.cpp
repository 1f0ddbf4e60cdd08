#include "doctor/checkpointing.h"

#include <algorithm>

#include <fmt/format.h>

namespace retrace::doctor {
namespace {

// Of the inputs that wait in host memory: the one in use and the one on its way.
constexpr int64_t kInputsInFlight = 2;

std::string plural(int64_t n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }

}  // namespace

Checkpointing::Checkpointing(const Model& model, double balance, int64_t loss_chunks)
    : model_(model),
      block_(block_table(model, balance)),
      embedding_(embedding_table(model, balance)),
      head_(head_table(model, balance)),
      alone_(rebuild(block_, {"x"})),
      with_next_(rebuild(block_, {"x"}, "next")),
      saved_(saved_bytes(block_)) {
  // And the gradient of a matrix, before it is added to what is there.
  working_ = plus(backward_rise_bytes(block_), times(evaluate("h*f", model.symbols()), model.dtype.bytes));
  const int64_t logits = find(head_, "log_softmax").bytes;
  const int64_t chunk = (logits + loss_chunks - 1) / loss_chunks;
  loss_gradients_ = times(2, chunk);
  head_saved_ = saved_bytes(head_) - logits + chunk;
  if (loss_chunks > 1) head_work_ = rebuild(head_, {"normed"}).work;
  const double blocks = static_cast<double>(model.layers);
  step_work_ = blocks * (forward_work(block_) + backward_work(block_));
  for (const Table* table : {&embedding_, &head_}) step_work_ += forward_work(*table) + backward_work(*table);
}

double Checkpointing::forward_share() const {
  return static_cast<double>(model_.layers) * forward_work(block_) / step_work_;
}

std::vector<std::string> Checkpointing::products() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : block_) {
    if (tensor.product) names.push_back(tensor.name);
  }
  return names;
}

// Whatever is saved and has fewer than a number per pair of tokens.
std::vector<std::string> Checkpointing::outside_attention() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : block_) {
    if (tensor.elements != "a*s*t" && !tensor.saved_by.empty())
      names.push_back(tensor.with.empty() ? tensor.name : tensor.with);
  }
  return names;
}

void Checkpointing::finish(PolicyCost& cost, int64_t rebuilt_bytes, double rebuilt_work) const {
  cost.kept_bytes = plus(cost.kept_bytes, saved_bytes(embedding_));
  cost.loss_bytes = plus(cost.kept_bytes, plus(head_saved_, loss_gradients_));
  cost.block_bytes = plus(cost.kept_bytes, plus(rebuilt_bytes, working_));
  cost.extra = (rebuilt_work + head_work_) / step_work_;
}

// In every block the same tensors are kept.
void Checkpointing::keep_parts(PolicyCost& cost, const std::vector<std::string>& kept) const {
  int64_t bytes = 0;
  for (const Tensor& tensor : block_) {
    const std::string& maker = tensor.with.empty() ? tensor.name : tensor.with;
    if (std::find(kept.begin(), kept.end(), maker) != kept.end()) bytes = plus(bytes, tensor.bytes);
  }
  cost.kept_bytes = times(bytes, model_.layers);
  // A block's input is made from what the block before keeps.
  const bool makes_input = std::find(kept.begin(), kept.end(), "x") == kept.end();
  const Rebuild again = rebuild(block_, kept, makes_input ? "next" : "");
  finish(cost, again.bytes, static_cast<double>(model_.layers) * again.work);
}

void Checkpointing::keep_inputs(PolicyCost& cost, int64_t inputs, int64_t whole_blocks, bool offload) const {
  const int64_t here = offload ? std::min(inputs, kInputsInFlight) : inputs;
  cost.kept_bytes = plus(times(here, block_input()), times(whole_blocks, saved_));
  cost.host_bytes = times(inputs - here, block_input());
}

PolicyCost Checkpointing::cost(PolicyKind kind, int64_t n, bool offload) const {
  const double blocks = static_cast<double>(model_.layers);
  PolicyCost cost{.kind = kind, .n = n};
  switch (kind) {
    case PolicyKind::keep_all:
      cost.name = "keep everything";
      keep_inputs(cost, 0, model_.layers, false);
      finish(cost, 0, 0);
      break;
    case PolicyKind::selective:
      cost.name = "keep products";
      keep_parts(cost, products());
      break;
    case PolicyKind::attention:
      cost.name = "rebuild attention";
      keep_parts(cost, outside_attention());
      break;
    case PolicyKind::first_blocks: {
      cost.name = fmt::format("first {} of {} blocks", n, model_.layers);
      keep_inputs(cost, n, model_.layers - n, offload);
      finish(cost, 0, static_cast<double>(n) * alone_.work);
      // When backward reaches the checkpointed blocks the others are gone, and one of them is whole.
      PolicyCost later;
      keep_inputs(later, n, 1, offload);
      finish(later, 0, 0);
      cost.block_bytes = std::max(cost.block_bytes, later.block_bytes);
      break;
    }
    case PolicyKind::every: {
      cost.name = n == 1 ? "every block" : fmt::format("every {} blocks", n);
      const int64_t segments = (model_.layers + n - 1) / n;
      keep_inputs(cost, segments, 0, offload);
      const double ends = static_cast<double>(segments);
      finish(cost, plus(alone_.bytes, times(n - 1, saved_)), ends * alone_.work + (blocks - ends) * with_next_.work);
      break;
    }
  }
  return cost;
}

std::vector<PolicyCost> Checkpointing::all(bool offload) const {
  std::vector<PolicyCost> costs{cost(PolicyKind::keep_all), cost(PolicyKind::selective)};
  if (model_.attention == Attention::math) costs.push_back(cost(PolicyKind::attention));
  for (int64_t n = 1; n < model_.layers; ++n) costs.push_back(cost(PolicyKind::first_blocks, n, offload));
  for (int64_t n = 1; n <= model_.layers; ++n) costs.push_back(cost(PolicyKind::every, n, offload));
  std::stable_sort(costs.begin(), costs.end(),
                   [](const PolicyCost& a, const PolicyCost& b) { return a.extra < b.extra; });
  return costs;
}

std::optional<PolicyCost> Checkpointing::cheapest(int64_t activation_bytes, bool offload) const {
  for (const PolicyCost& cost : all(offload)) {
    if (cost.peak_bytes() <= activation_bytes) return cost;
  }
  return std::nullopt;
}

PolicyCost Checkpointing::leanest(bool offload) const {
  const auto costs = all(offload);
  return *std::min_element(costs.begin(), costs.end(),
                           [](const PolicyCost& a, const PolicyCost& b) { return a.peak_bytes() < b.peak_bytes(); });
}

std::string code(const PolicyCost& policy, const Model& model) {
  switch (policy.kind) {
    case PolicyKind::keep_all:
      return "// nothing to add";
    case PolicyKind::selective:
      return "retrace::Session session(retrace::selective());   // and session.step() around each step";
    case PolicyKind::attention:
      return "auto y = retrace::checkpoint(attention, q, k, v);   // in every block";
    case PolicyKind::first_blocks:
      return fmt::format(
          "for (size_t i = 0; i < blocks.size(); ++i)\n"
          "  x = i < {} ? retrace::checkpoint(blocks[i], x) : blocks[i]->forward(x);",
          policy.n);
    case PolicyKind::every:
      return fmt::format("x = retrace::checkpoint_sequential(blocks, {}, x);   // {} of {}",
                         (model.layers + policy.n - 1) / policy.n,
                         plural((model.layers + policy.n - 1) / policy.n, "segment"), plural(policy.n, "block"));
  }
  return "";
}

}  // namespace retrace::doctor
