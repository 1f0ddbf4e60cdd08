#include "tape/stack.h"

#include <algorithm>

namespace retrace {

c10::IValue as_list(const ListArg& list, const std::vector<at::Tensor>& tensors) {
  if (!list.optionals) return c10::List<at::Tensor>(tensors);
  c10::List<c10::optional<at::Tensor>> optionals;
  for (const at::Tensor& t : tensors) optionals.push_back(t.defined() ? c10::optional<at::Tensor>(t) : c10::nullopt);
  return optionals;
}

bool is_plain(const c10::IValue& v) {
  return v.isNone() || v.isInt() || v.isDouble() || v.isBool() || v.isComplexDouble() || v.isString() || v.isDevice() ||
         v.isIntList() || v.isDoubleList() || v.isBoolList() || v.isGenerator() || v.isScalar() ||
         (v.isList() && std::all_of(v.toListRef().begin(), v.toListRef().end(), [](const c10::IValue& e) {
            return e.isNone() || e.isInt() || e.isDouble() || e.isBool() || e.isString() || e.isScalar();
          }));
}

Tensors returned_tensors(const std::vector<c10::IValue>& stack, size_t count) {
  Tensors tensors;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isTensor() && !stack[i].isTensorList()) continue;
    visit_tensors(stack[i], [&](const at::Tensor& t, int32_t) { tensors.push_back(t); });
  }
  return tensors;
}

}  // namespace retrace
