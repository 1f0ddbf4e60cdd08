// The tensors on an operator's stack. Nobody else walks over one.
#pragma once

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
std::vector<at::Tensor> returned_tensors(const std::vector<c10::IValue>& stack, size_t count);

// The arguments of a recorded operator with `tensors` in their places; they are parallel to op.args, and where one is undefined
// its place stays empty.
std::vector<c10::IValue> filled_stack(const Op& op, std::vector<at::Tensor> tensors);

}  // namespace retrace
