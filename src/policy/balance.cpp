#include "policy/balance.h"

#include <algorithm>

namespace retrace {
namespace {

using ValueId = TapeView::ValueId;

// What plain autograd would have and we do not.
int64_t forgotten_bytes(TapeView& tape) {
  int64_t bytes = 0;
  tape.begin_walk();
  for (const ValueId id : tape.saved()) {
    const TapeView::Value v = tape.value(id);
    if (v.held || v.rebuilt || tape.was_at_value(id)) continue;
    if (!tape.is_elsewhere(id)) bytes += v.bytes;
  }
  return bytes;
}

bool is_held_in_vain(const TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  return v.held && v.handles == 0 && v.holders <= 1 && v.uses == 0 && !tape.is_shared(id);
}

}  // namespace

int64_t below_plain_bytes(TapeView& tape) {
  int64_t bytes = forgotten_bytes(tape);
  for (ValueId id = 0; id < tape.next_value(); ++id) {
    const TapeView::Value v = tape.value(id);
    if (v.handles > 0 || v.holders > 1 || !(v.held || v.rebuilt)) continue;
    if (!tape.is_shared(id)) bytes -= v.bytes;
  }
  return bytes;
}

int64_t balance(TapeView& tape, std::vector<ValueId>& all_held) {
  int64_t spare = forgotten_bytes(tape);
  std::erase_if(all_held, [&](ValueId id) { return !tape.value(id).held; });
  std::vector<ValueId> held;
  for (const ValueId id : all_held) {
    if (!is_held_in_vain(tape, id)) continue;
    held.push_back(id);
    spare -= tape.value(id).bytes;
  }
  if (spare < 0 && tape.may_have_idle() && tape.let_go_idle()) return balance(tape, all_held);
  // What is left is needed for a rebuild. A value that can be made again costs time to be without, a root cannot be.
  std::sort(held.begin(), held.end(), [&](ValueId a, ValueId b) { return tape.value(a).bytes > tape.value(b).bytes; });
  for (const ValueId id : held) {
    if (spare >= 0) break;
    const TapeView::Value v = tape.value(id);
    if (v.is_root() || v.is_copy || !is_held_in_vain(tape, id)) continue;
    spare += v.bytes;
    tape.give_up(id);
  }
  if (spare < 0) tape.let_go_roots();
  return std::max<int64_t>(spare, 0);
}

}  // namespace retrace
