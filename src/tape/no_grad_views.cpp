#include "tape/no_grad_views.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tape/stack.h"
#include "tape/thread_object.h"

namespace retrace {
namespace {

constexpr size_t kFirstPrune = 64;

struct Views {
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> alive;  // and some that have died since
  size_t prune_at = kFirstPrune;
  std::vector<char> running;  // operators, outermost first: whether they were given such a view
  std::optional<at::CallbackHandle> callback;

  ~Views() { stop(); }
  void prune();
  void watch_operators();
  void stop() {
    if (callback) at::removeCallback(*callback);
    callback.reset();
    running.clear();
  }
};

void Views::prune() {
  std::erase_if(alive, [](const auto& weak) {
    const auto view = weak.lock();
    return !view || !is_no_grad_view(at::Tensor(view));
  });
  prune_at = std::max(kFirstPrune, 2 * alive.size());
}

Views& views() { return ThreadObject<Views>::get(); }

bool has_no_grad_view(const c10::IValue& v) {
  bool found = false;
  visit_tensors(v, [&](const at::Tensor& t, int32_t) { found |= is_no_grad_view(t); });
  return found;
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& operation) {
  const auto inputs = operation.inputs();
  views().running.push_back(
      std::any_of(inputs.begin(), inputs.end(), [](const auto& v) { return has_no_grad_view(v); }));
  return nullptr;
}

void operator_ends(const at::RecordFunction&, at::ObserverContext*) {
  if (!views().running.empty()) views().running.pop_back();
}

// LibTorch then boxes what every operator is given: not before a view is known to live while something is saved.
void Views::watch_operators() {
  if (callback) return;
  callback = at::addThreadLocalCallback(at::RecordFunctionCallback(&operator_begins, &operator_ends)
                                            .needsInputs(true)
                                            .scopes({at::RecordScope::FUNCTION}));
}

}  // namespace

bool is_no_grad_view(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return false;
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && !meta->grad_fn_ && !meta->requires_grad_;
}

void note_no_grad_views(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> made) {
  if (at::GradMode::is_enabled()) return;
  if (std::none_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); })) return;
  Views& mine = views();
  for (const at::Tensor& view : made) {
    if (!view.defined()) continue;
    if (mine.alive.size() >= mine.prune_at) mine.prune();  // most live for one operator: a linear layer's t()
    mine.alive.emplace_back(view.getIntrusivePtr());
  }
}

void forget_no_grad_views() {
  views().alive.clear();
  views().stop();
}

bool may_save_no_grad_view() {
  Views& mine = views();
  if (mine.alive.empty()) return false;
  mine.prune();
  if (mine.alive.empty()) {
    mine.stop();
    return false;
  }
  mine.watch_operators();
  // Between operators it is a Function that saves what it likes. So it may be while the first operator runs that was
  // not watched.
  return mine.running.empty() || mine.running.back() != 0;
}

}  // namespace retrace
