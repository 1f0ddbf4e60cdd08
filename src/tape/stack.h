// The tensors on an operator's stack. Nobody else walks over one.
#pragma once

#include <algorithm>
#include <utility>

#include "tape/op.h"

namespace retrace {

// Calls f(tensor, element) for each tensor of an argument or a result, undefined ones included, in lists, tuples and
// dictionaries too. `element` is the position in the list that holds it, or none.
template <class F>
void visit_tensors(const c10::IValue& v, F&& f, int32_t element = kNone) {
  if (v.isTensor()) {
    f(v.toTensor(), element);
  } else if (v.isList()) {
    int32_t position = 0;
    for (const c10::IValue& e : v.toListRef()) visit_tensors(e, f, position++);
  } else if (v.isTuple()) {
    for (const c10::IValue& e : v.toTupleRef().elements()) visit_tensors(e, f, 0);
  } else if (v.isGenericDict()) {
    for (const auto& entry : v.toGenericDict()) visit_tensors(entry.value(), f, 0);
  }
}

inline bool is_list_of_tensors(const c10::IValue& v) { return v.isTensorList() || v.isOptionalTensorList(); }

// Whether an argument without tensors can be stored and passed again: it holds nothing we could not see.
bool is_plain(const c10::IValue& v);

// What an operator returned, lists of tensors flattened: the last `count` of a stack.
using Tensors = c10::SmallVector<at::Tensor, 4>;
Tensors returned_tensors(const std::vector<c10::IValue>& stack, size_t count);

c10::IValue as_list(const ListArg& list, const std::vector<at::Tensor>& tensors);

// The arguments of a recorded operator, with tensor_of(position in op.args) in the place of each tensor. If that is
// undefined, the place stays empty.
template <class F>
std::vector<c10::IValue> filled_stack(const Op& op, F&& tensor_of) {
  std::vector<c10::IValue> stack(op.stack.begin(), op.stack.end());
  std::vector<std::vector<at::Tensor>> lists(op.lists.size());
  for (size_t l = 0; l < lists.size(); ++l) lists[l].resize(static_cast<size_t>(op.lists[l].size));
  for (size_t i = 0; i < op.args.size(); ++i) {
    const TensorArg& arg = op.args[i];
    at::Tensor tensor = tensor_of(i);
    if (!tensor.defined()) continue;
    if (arg.element == kNone) {
      stack[static_cast<size_t>(arg.slot)] = std::move(tensor);
      continue;
    }
    const auto list = std::find_if(op.lists.begin(), op.lists.end(), [&](auto& each) { return each.slot == arg.slot; });
    lists[static_cast<size_t>(list - op.lists.begin())][static_cast<size_t>(arg.element)] = std::move(tensor);
  }
  for (size_t l = 0; l < lists.size(); ++l)
    stack[static_cast<size_t>(op.lists[l].slot)] = as_list(op.lists[l], lists[l]);
  return stack;
}

}  // namespace retrace
