#include "doctor/checkpointing.h"

#include <algorithm>

#include <fmt/format.h>

namespace retrace::doctor {
namespace {

// Of the inputs that wait in host memory: the one in use and the one on its way.
constexpr int64_t kInputsInFlight = 2;

// What a block keeps for its own backward. Of the stream one tensor is kept per block: here the input, in fact the last
// product of the block before, of which the input is made.
std::vector<std::string> products(const Table& block) {
  std::vector<std::string> names{"x"};
  for (const Tensor& tensor : block) {
    if (tensor.product && tensor.name != "down") names.push_back(tensor.name);
  }
  return names;
}

// Whatever is saved and has fewer than a number per pair of tokens, and the block's input.
std::vector<std::string> outside_attention(const Table& block) {
  std::vector<std::string> names{"x"};
  for (const Tensor& tensor : block) {
    const bool saved = !tensor.saved_by.empty() && tensor.elements != "a*s*t";
    if (saved && tensor.name != "x") names.push_back(tensor.name);
  }
  return names;
}

int64_t bytes_of(const Table& block, const std::vector<std::string>& names) {
  int64_t bytes = 0;
  const auto named = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const Tensor& tensor : block) {
    const bool further = !tensor.with.empty() && !tensor.saved_by.empty() && named(tensor.with);
    if (named(tensor.name) || further) bytes = plus(bytes, tensor.bytes);
  }
  return bytes;
}

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

void Checkpointing::finish(PolicyCost& cost, int64_t rebuilt_bytes, double rebuilt_work) const {
  cost.kept_bytes = plus(cost.kept_bytes, saved_bytes(embedding_));
  cost.loss_bytes = plus(cost.kept_bytes, plus(head_saved_, loss_gradients_));
  cost.block_bytes = plus(cost.kept_bytes, plus(rebuilt_bytes, working_));
  cost.extra = (rebuilt_work + head_work_) / step_work_;
}

// Inputs of checkpoints that are on the device; the others wait in host memory.
int64_t Checkpointing::inputs_here(PolicyCost& cost, int64_t inputs, bool offload) const {
  const int64_t here = offload ? std::min(inputs, kInputsInFlight) : inputs;
  cost.host_bytes = times(inputs - here, block_input());
  return times(here, block_input());
}

// In the first n blocks only these tensors are kept, the block's input among them.
void Checkpointing::rebuild_parts(PolicyCost& cost, const std::vector<std::string>& kept, bool offload) const {
  const int64_t whole = model_.layers - cost.n;
  const Rebuild again = rebuild(block_, kept);
  PolicyCost later;  // when backward reaches those blocks the others are gone, and one of them is whole
  later.kept_bytes = plus(times(cost.n, bytes_of(block_, kept) - block_input()), inputs_here(cost, cost.n, offload));
  cost.kept_bytes = plus(later.kept_bytes, times(whole, saved_));
  finish(later, again.bytes, 0);
  finish(cost, whole > 0 ? 0 : again.bytes, static_cast<double>(cost.n) * again.work);
  cost.block_bytes = std::max(cost.block_bytes, later.block_bytes);
}

void Checkpointing::rebuild_segments(PolicyCost& cost, bool offload) const {
  const int64_t segments = (model_.layers + cost.n - 1) / cost.n;
  cost.kept_bytes = inputs_here(cost, segments, offload);
  const double ends = static_cast<double>(segments), inner = static_cast<double>(model_.layers) - ends;
  finish(cost, plus(alone_.bytes, times(cost.n - 1, saved_)), ends * alone_.work + inner * with_next_.work);
}

PolicyCost Checkpointing::cost(PolicyKind kind, int64_t n, bool offload) const {
  PolicyCost cost{.kind = kind, .n = n};
  const std::string where = n == model_.layers ? "" : fmt::format(" in {} of {}", n, model_.layers);
  switch (kind) {
    case PolicyKind::keep_all:
      cost.name = "keep everything";
      cost.kept_bytes = times(model_.layers, saved_);
      finish(cost, 0, 0);
      break;
    case PolicyKind::products:
      cost.name = "keep products";
      cost.n = model_.layers;
      rebuild_parts(cost, products(block_), false);
      break;
    case PolicyKind::attention:
      cost.name = "rebuild attention" + where;
      rebuild_parts(cost, outside_attention(block_), false);
      break;
    case PolicyKind::blocks:
      cost.name = fmt::format("checkpoint {} of {} blocks", n, model_.layers);
      rebuild_parts(cost, {"x"}, offload);
      break;
    case PolicyKind::every:
      cost.name = n == 1 ? "checkpoint every block" : fmt::format("checkpoint every {} blocks", n);
      rebuild_segments(cost, offload);
      break;
  }
  return cost;
}

std::vector<PolicyCost> Checkpointing::all(bool offload) const {
  std::vector<PolicyCost> costs{cost(PolicyKind::keep_all), cost(PolicyKind::products)};
  for (int64_t n = 1; n <= model_.layers; ++n) {
    if (model_.attention == Attention::math) costs.push_back(cost(PolicyKind::attention, n));
    if (n < model_.layers) costs.push_back(cost(PolicyKind::blocks, n, offload));
    costs.push_back(cost(PolicyKind::every, n, offload));
  }
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
  const bool all = policy.n == model.layers;
  switch (policy.kind) {
    case PolicyKind::keep_all:
      return "// nothing to add";
    case PolicyKind::products:
      return "retrace::Session session(retrace::selective());   // session.step() around each step";
    case PolicyKind::attention:
      return "y = retrace::checkpoint(attention, q, k, v);   // scores to values, in " +
             (all ? std::string("every block") : fmt::format("the first {} blocks", policy.n));
    case PolicyKind::blocks:
      return fmt::format(
          "for (size_t i = 0; i < blocks.size(); ++i)\n"
          "  x = i < {} ? retrace::checkpoint(blocks[i], x) : blocks[i]->forward(x);",
          policy.n);
    case PolicyKind::every: {
      const int64_t segments = (model.layers + policy.n - 1) / policy.n;
      return fmt::format("x = retrace::checkpoint_sequential(blocks, {}, x);   // {} of {}", segments,
                         plural(segments, "segment"), plural(policy.n, "block"));
    }
  }
  return "";
}

}  // namespace retrace::doctor
