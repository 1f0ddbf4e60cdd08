#include "tape/unrecorded.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "libtorch/compat.h"
#include "tape/no_grad_views.h"
#include "tape/stack.h"
#include "testing/hooks.h"

namespace retrace {
namespace {

using Stack = std::vector<c10::IValue>;

bool says_what_it_writes(const OpTraits& op) {
  return !op.silent_about_writes && !op.collective && !op.opaque && op.silent_writes.empty() &&
         op.found_writing.load(std::memory_order_relaxed) == 0;
}

// What the tape may still have to rebuild something from.
bool writes_known(const Scope& scope, const OpTraits& op, const Stack& stack) {
  if (std::find(op.writes.begin(), op.writes.end(), true) == op.writes.end()) return false;
  bool known = false;
  const SharedTape::Lock tape(*scope.tape);
  const c10::IValue* argument = stack.data() + (stack.size() - op.writes.size());
  for (const bool writes : op.writes) {
    const c10::IValue& v = *argument++;
    if (!writes) continue;
    visit_tensors(v, [&](const at::Tensor& t, int32_t) {
      known |= t.defined() && (!understood(t) || tape->storages.find(t.storage()) != kNone);
    });
  }
  return known;
}

}  // namespace

bool run_unrecorded(const Scope& scope, const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack& stack) {
  if (at::GradMode::is_enabled() || scope.ops_in_vain < detail::most_in_vain()) return false;
  const OpTraits& op = traits_of(handle);
  if (!says_what_it_writes(op) || writes_known(scope, op, stack)) return false;
  Tensors views_of;
  for (size_t i = stack.size() - op.writes.size(); op.view && i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& t, int32_t) { views_of.push_back(t); });
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard exclude(compat::kRecordKey);
    handle.redispatchBoxed(keys, &stack);
  }
  if (op.admits_views && !op.view) return true;
  const Tensors results = returned_tensors(stack, handle.schema().returns().size());
  if (op.view) note_no_grad_views(views_of, results);
  if (op.admits_views) return true;
  const SharedTape::Lock tape(*scope.tape);
  for (const at::Tensor& result : results) tape->storages.add_counter(result);
  return true;
}

}  // namespace retrace
