#include "tape/sweep.h"

#include "plan/simulate/sweep.h"
#include "tape/scope.h"
#include "tape/tape.h"
#include "tape/writes.h"

namespace retrace {
namespace {

// The tape as plan/simulate/sweep.h sees it.
class Swept {
 public:
  explicit Swept(Tape& tape) : tape_(tape) {}

  Value& value(ValueId id) const { return tape_.value(id); }
  const Op& op(OpId id) const { return tape_.op(id); }
  const Op& recorded(OpId id) const { return op(id); }

  OpId op_count() const { return tape_.next_op(); }
  OpId op_from(OpId id) const { return tape_.op_from(id); }
  OpId op_before(OpId id) const { return tape_.op_before(id); }
  void drop_op(OpId id) { tape_.drop_op(id); }

  ValueId value_count() const { return tape_.next_value(); }
  ValueId present_from(ValueId id) { return tape_.present_from(id); }
  int64_t bytes(ValueId id) const { return value(id).bytes; }
  bool is_held(ValueId id) const { return retrace::is_held(value(id)); }
  bool is_copy(ValueId id) const { return value(id).held.is_copy(); }
  bool is_shared(ValueId id) const { return value(id).held.is_shared(); }
  bool is_reached(ValueId id) const { return value(id).reach > 0; }
  bool is_living(ValueId id) const { return tape_.is_living(id); }
  bool has_handle(ValueId id) const { return value(id).handles > 0; }
  bool may_be_saved(ValueId id) const { return has_handle(id) || tape_.storage(value(id).storage).pin.use_count() > 0; }
  bool was_weighed(ValueId id) { return std::exchange(value(id).weighed, true); }
  void let_go(ValueId id) { tape_.let_go(id); }
  int64_t kept_bytes() const { return tape_.kept_bytes(); }
  std::pair<Marks, Marks>& marks() { return tape_.marks; }

 private:
  Tape& tape_;
};

}  // namespace

void collect(Tape& tape) {
  tape.count_needed_recipes();
  Swept swept(tape);
  sweep::collect(swept, tape.sweeping);
}

void sweep_if_due(Tape& tape) {
  if (!tape.closed() && tape.sweeping.is_due(thread_phase() == Phase::backward)) collect(tape);
}

bool let_go_idle(Tape& tape) {
  tape.count_needed_recipes();
  Swept swept(tape);
  return sweep::let_go_idle(swept, tape.sweeping);
}

bool let_go_roots(Tape& tape) {
  return let_go_roots(tape, [] { return false; });
}

bool let_go_roots(Tape& tape, const std::function<bool()>& is_enough) {
  tape.count_needed_recipes();
  Swept swept(tape);
  if (!sweep::let_go_roots(swept, is_enough)) return false;
  tape.sweeping.ended(sweep::drop_lost_ops(swept));
  return true;
}

void close(Tape& tape) {
  begin_event(tape);
  look_at_saved(tape);
  tape.measure();
  tape.close();
  // Under a budget a later step may let go of what this one keeps.
  for (OpId id = tape.op_from(0); id != kNone; id = tape.op_from(id + 1)) {
    if (tape.op(id).alive == 0 && tape.op(id).reach == 0) tape.drop_op(id);
  }
  for (ValueId v = tape.present_from(0); v != kNone; v = tape.present_from(v + 1)) {
    if (tape.value(v).alive == 0) tape.let_go(v);
  }
}

}  // namespace retrace
