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
  tape.pressure.slack_bytes = balance(view, tape.balancing.held);
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
