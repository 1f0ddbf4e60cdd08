// A cheaper way to an operator's first result when its other results are at hand.
//
// A batch norm spends most of its time on the batch's mean and deviation. They are a few bytes, and autograd saves
// them; with them the normalised batch is one multiplication and one addition per element, the same ones as in forward.
#pragma once

#include "tape/tape.h"

namespace retrace {

// Whether it has one. Asked when the operator has run and its results are on the tape. `seen` are the tensors of
// op.args.
bool has_shortcut(const Op& op, at::TensorList seen);

// The operator's stack, changed so that it makes its first result, bit for bit, from the others. `stack` has its
// arguments as recorded, those it writes excepted; `rest` are the other results in their order.
void take_shortcut(std::vector<c10::IValue>& stack, const std::vector<at::Tensor>& rest);

// What a shortcut is taken to cost until one has been taken and timed: this share of the operator's own time.
inline constexpr float kShortcutShare = 0.25F;

}  // namespace retrace
