// Weights and their gradients, told apart from the rest.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <mutex>

#include "memory/allocator.h"
#include "memory/spin_lock.h"

namespace retrace::memory {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::variable_list;
using NodePtr = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

// Runs after a leaf's gradient was accumulated, while backward still goes on.
class TagGradient : public torch::autograd::FunctionPostHook {
 public:
  explicit TagGradient(AccumulateGrad* node) : node_(node) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    const at::Tensor& gradient = node_->variable.grad();
    if (gradient.defined() && gradient.has_storage()) set_owner(gradient.storage(), Owner::gradients);
    return outputs;
  }

 private:
  AccumulateGrad* node_;  // owns this hook
};

void add_hook(const NodePtr& node) {
  auto* const accumulate = dynamic_cast<AccumulateGrad*>(node.get());
  if (!accumulate) return;
  // Two threads may meet a shared leaf at once; those with leaves of their own need not wait for each other.
  static std::array<SpinLock, 64> locks;
  const std::lock_guard lock(locks[std::hash<const void*>()(node.get()) / alignof(std::max_align_t) % locks.size()]);
  const auto& hooks = node->post_hooks();
  const bool tagged = std::any_of(hooks.begin(), hooks.end(),
                                  [](const auto& hook) { return dynamic_cast<TagGradient*>(hook.get()) != nullptr; });
  if (!tagged) node->add_post_hook(std::make_unique<TagGradient>(accumulate));
}

void tag_gradient_of(const at::Tensor& leaf) {
  const at::Tensor& gradient = leaf.grad();
  if (gradient.defined() && gradient.has_storage()) set_owner(gradient.storage(), Owner::gradients);
}

NodePtr tag_leaf(const at::Tensor& leaf) {
  if (!leaf.defined() || !leaf.has_storage()) return nullptr;
  set_owner(leaf.storage(), Owner::weights);
  tag_gradient_of(leaf);
  if (!leaf.requires_grad() || !leaf.is_leaf()) return nullptr;
  auto node = torch::autograd::impl::grad_accumulator(leaf);
  add_hook(node);
  return node;
}

}  // namespace

// The accumulator is alive as long as a graph uses the leaf, and the hook with it: nothing needs to be held here.
void Leaves::add(const at::Tensor& leaf) {
  tag_leaf(leaf);
  leaves_.emplace_back(leaf.getIntrusivePtr());
}

void Leaves::used_again(const at::Tensor& leaf) { add_hook(torch::autograd::impl::try_get_grad_accumulator(leaf)); }

void Leaves::tag_gradients() const {
  for (const auto& weak : leaves_) {
    if (auto leaf = weak.lock()) tag_gradient_of(at::Tensor(std::move(leaf)));
  }
}

struct Watch::State {
  std::vector<NodePtr> accumulators;
  std::vector<at::Tensor> weights;
};

Watch::Watch(const std::vector<at::Tensor>& weights) : state_(std::make_unique<State>()) {
  install();
  for (const auto& weight : weights) {
    state_->accumulators.push_back(tag_leaf(weight));
    state_->weights.push_back(weight);
  }
}

Watch::~Watch() {
  for (const auto& weight : state_->weights) {
    if (!weight.defined() || !weight.has_storage()) continue;
    change_owner(weight.storage(), Owner::weights, Owner::other);
    const at::Tensor& gradient = weight.grad();
    if (gradient.defined() && gradient.has_storage()) change_owner(gradient.storage(), Owner::gradients, Owner::other);
  }
}

}  // namespace retrace::memory
