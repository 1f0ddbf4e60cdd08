#include "tape/balance.h"

#include "policy/balance.h"
#include "tape/runtime_view.h"

namespace retrace {

int64_t below_plain_bytes(Tape& tape) {
  RuntimeView view(tape);
  return below_plain_bytes(view);
}

void balance(Tape& tape) {
  if (tape.closed() || tape.budgeted_step) return;
  RuntimeView view(tape);
  if (!tape.pressure.since_balance.is_out_of_balance(view)) return;
  tape.count_needed_recipes();
  tape.pressure.since_balance.look(view);
}

void look_outside(Tape& tape) {
  if (!tape.budgeted_step) tape.pressure.since_balance.look_outside(RuntimeView(tape));
}

void hold_if_better(Tape& tape, ValueId id, const c10::Storage& storage) {
  if (tape.budgeted_step) return;
  RuntimeView view(tape, &storage);
  tape.hold_if_better.saving(view, id, /*in_session=*/tape.tags_weights);
}

}  // namespace retrace
