#include "tape/balance.h"

#include "policy/balance.h"
#include "tape/runtime_view.h"

namespace retrace {

int64_t below_plain_bytes(Tape& tape) {
  RuntimeView view(tape);
  return below_plain_bytes(view);
}

void balance(Tape& tape) {
  if (tape.closed() || tape.budgeted_step || !tape.pressure.may_be_out_of_balance()) return;
  tape.count_needed_recipes();
  RuntimeView view(tape);
  const Balance balanced = balance(view, tape.balancing.held);
  tape.pressure.slack_bytes = balanced.slack_bytes;
  tape.pressure.held_since_balance = balanced.shared_bytes;
}

void hold_if_better(Tape& tape, ValueId id, const c10::Storage& storage) {
  if (tape.budgeted_step || tape.value(id).held || tape.value(id).handles > 0) return;
  RuntimeView view(tape, &storage);
  if (tape.tags_weights) tape.balancing.instead.saving(view, id);
  if (!tape.value(id).held && tape.balancing.small.is_worth_holding(view, id)) view.hold(id);
}

}  // namespace retrace
