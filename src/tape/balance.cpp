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
  tape.pressure.since_balance.looked(view, balance(view, tape.balancing.held));
}

void look_outside(Tape& tape) {
  if (!tape.budgeted_step) tape.pressure.since_balance.look_outside(RuntimeView(tape));
}

void hold_if_better(Tape& tape, ValueId id, const c10::Storage& storage) {
  if (tape.budgeted_step || tape.value(id).held || tape.value(id).handles > 0) return;
  RuntimeView view(tape, &storage);
  if (tape.tags_weights) {
    tape.balancing.instead.saving(view, id, HoldInstead::Where::session);
  } else if (tape.balancing.policy_chooses) {
    tape.balancing.instead.saving(view, id, HoldInstead::Where::bare_checkpoint);
  }
  if (!tape.value(id).held && tape.balancing.small.is_worth_holding(view, id)) view.hold(id);
}

}  // namespace retrace
