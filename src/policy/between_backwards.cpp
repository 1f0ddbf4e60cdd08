#include "policy/between_backwards.h"

#include <algorithm>
#include <utility>

namespace retrace {
namespace {

using ValueId = TapeView::ValueId;
using OpId = TapeView::OpId;

// What was made before an op, is read by it or a later one that a rebuild may run, and is neither a root nor held.
std::vector<ValueId> frontier_of(TapeView& tape, OpId first) {
  std::vector<ValueId> frontier;
  tape.begin_walk();
  for (OpId id = tape.op_from(first); id >= 0; id = tape.op_from(id + 1)) {
    if (!tape.is_alive(id)) continue;
    for (const TapeView::Arg& arg : tape.args(id)) {
      if (arg.shape_only || tape.was_at_value(arg.value)) continue;
      const TapeView::Value v = tape.value(arg.value);
      if (v.producer < first && !v.is_source()) frontier.push_back(arg.value);
    }
  }
  return frontier;
}

}  // namespace

void BetweenBackwards::unpacked(const TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  if (v.rebuilt && !v.is_root() && (first_ < 0 || v.producer < first_)) first_ = v.producer;
}

void BetweenBackwards::ends(TapeView& tape, bool recorded) {
  const OpId first = std::exchange(first_, -1);
  if (!recorded || first < 0) return;
  const std::vector<ValueId> frontier = frontier_of(tape, first);
  if (std::none_of(frontier.begin(), frontier.end(), [&](ValueId id) { return tape.value(id).rebuilt; })) return;
  if (++went_back_ == 1) return;
  std::vector<ValueId> held;
  for (const ValueId id : frontier) {
    if (tape.hold_at_hand(id)) held.push_back(id);
  }
  for (const ValueId id : std::exchange(held_, std::move(held))) {
    const TapeView::Value v = tape.value(id);
    if (v.held && !v.wanted && !v.is_root()) tape.let_go(id);
  }
}

}  // namespace retrace
