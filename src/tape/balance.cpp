#include "tape/balance.h"

#include <algorithm>

#include "tape/handle.h"
#include "tape/runtime_view.h"

namespace retrace {
namespace {

// What plain autograd would have and we do not.
int64_t forgotten_bytes(Tape& tape) {
  int64_t bytes = 0;
  const uint32_t pricing = tape.next_pricing();
  for (const Handle* const handle : tape.handles.all()) {
    Value& v = tape.value(handle->value());
    if (v.held || v.rebuilt || std::exchange(v.priced, pricing) == pricing) continue;
    const bool given = v.given && v.given->use_count() > 0;
    if (!given && tape.storage(v.storage).pin.use_count() == 0) bytes += v.bytes;
  }
  return bytes;
}

}  // namespace

int64_t below_plain_bytes(Tape& tape) {
  int64_t bytes = forgotten_bytes(tape);
  for (ValueId id = 0; id < tape.next_value(); ++id) {
    const Value& v = tape.value(id);
    if (v.handles > 0 || v.holders > 1) continue;
    if (v.held ? !v.held.is_shared() : v.rebuilt && v.rebuilt.use_count() <= 1) bytes -= v.bytes;
  }
  return bytes;
}

void balance(Tape& tape) {
  if (tape.closed() || tape.budgeted_step || !tape.pressure.may_be_out_of_balance()) return;
  tape.count_needed_recipes();
  const auto in_vain = [&](ValueId id) {
    const Value& v = tape.value(id);
    return v.held && v.handles == 0 && v.holders <= 1 && v.uses == 0 && !v.held.is_shared();
  };
  int64_t spare = forgotten_bytes(tape);
  std::erase_if(tape.balancing.held, [&](ValueId id) { return !tape.value(id).held; });
  std::vector<ValueId> held;
  for (const ValueId id : tape.balancing.held) {
    if (!in_vain(id)) continue;
    held.push_back(id);
    spare -= tape.value(id).bytes;
  }
  if (spare < 0 && may_have_idle(tape) && let_go_idle(tape)) {
    tape.pressure.held_since_balance = tape.pressure.slack_bytes + 1;  // look again
    return balance(tape);
  }
  // What is left is needed for a rebuild. A value that can be made again costs time to be without, a root cannot be.
  std::sort(held.begin(), held.end(), [&](ValueId a, ValueId b) { return tape.value(a).bytes > tape.value(b).bytes; });
  for (const ValueId id : held) {
    if (spare >= 0) break;
    if (tape.is_root(tape.value(id)) || tape.value(id).held.is_copy() || !in_vain(id)) continue;
    spare += tape.value(id).bytes;
    tape.value(id).keep = false;
    tape.let_go(id);
  }
  if (spare < 0) let_go_roots(tape);
  tape.pressure.slack_bytes = std::max<int64_t>(spare, 0);
  tape.pressure.held_since_balance = 0;
}

void hold_if_no_larger(Tape& tape, ValueId id, const c10::Storage& storage) {
  if (tape.budgeted_step || !tape.tags_weights || tape.value(id).held || tape.value(id).handles > 0 ||
      !tape.balancing.keeps_any)
    return;
  RuntimeView view(tape, &storage);
  tape.balancing.instead.saving(view, id);
}

}  // namespace retrace
