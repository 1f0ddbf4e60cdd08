// The part of PredictedStep that lets go of what is held in vain, as src/tape/sweep.cpp does.
#include "plan/simulate/sweep.h"
#include "policy/predicted_step.h"

namespace retrace {

using plan::at;
using plan::kNone;

void PredictedStep::let_go(ValueId id) {
  state(id).external_held = false;
  if (std::exchange(state(id).copied, false)) simulation_.add_held(-graph_.values[at(id)].bytes);
  simulation_.stop_holding(id);
}

void PredictedStep::give_up(ValueId id) {
  choices_[at(id)] = plan::Choice::rebuild();
  let_go(id);
}

void PredictedStep::sweep_if_due() {
  if (sweeping_.is_due(in_backward_)) collect();
}

// The step as plan/simulate/sweep.h sees it.
class PredictedStep::Swept {
 public:
  explicit Swept(PredictedStep& step) : step_(step) {}

  const plan::SimValue& value(ValueId id) const { return now().values[at(id)]; }
  const plan::SimOp& op(OpId id) const { return now().ops[at(id)]; }
  const plan::Op& recorded(OpId id) const { return step_.graph_.ops[at(id)]; }

  OpId op_count() const { return step_.next_op_; }
  OpId op_from(OpId id) const { return step_.op_from(id); }
  OpId op_before(OpId id) const { return step_.op_before(id); }
  void drop_op(OpId id) {
    for_each_output(recorded(id), [&](ValueId v) { step_.simulation_.value(v).producer = kNone; });
    step_.repeatable_[at(id)] = 0;
  }

  ValueId value_count() const { return step_.next_value(); }
  ValueId present_from(ValueId id) { return step_.present_from(id); }
  int64_t bytes(ValueId id) const { return step_.graph_.values[at(id)].bytes; }
  bool is_held(ValueId id) const { return step_.is_held(id); }
  bool is_copy(ValueId id) const { return step_.state(id).copied; }
  bool is_shared(ValueId id) const { return step_.is_shared(id); }
  bool is_reached(ValueId) const { return false; }  // counted only under a budget
  bool is_living(ValueId id) const { return step_.simulation_.is_living(id); }
  bool has_handle(ValueId id) const { return step_.state(id).handles > 0; }
  bool may_be_saved(ValueId id) const { return has_handle(id) || step_.simulation_.has_storage(id); }
  bool was_weighed(ValueId id) { return std::exchange(step_.state(id).weighed, true); }
  void let_go(ValueId id) { step_.let_go(id); }
  int64_t kept_bytes() const { return now().held_bytes; }
  std::pair<Marks, Marks>& marks() { return marks_; }

 private:
  const plan::SimulationState& now() const { return step_.simulation_.now(); }

  PredictedStep& step_;
  std::pair<Marks, Marks> marks_;
};

void PredictedStep::collect() {
  Swept swept(*this);
  sweep::collect(swept, sweeping_);
}

bool PredictedStep::let_go_idle() {
  Swept swept(*this);
  return sweep::let_go_idle(swept, sweeping_);
}

void PredictedStep::let_go_roots() {
  Swept swept(*this);
  if (sweep::let_go_roots(swept, [] { return false; })) sweeping_.ended(sweep::drop_lost_ops(swept));
}

}  // namespace retrace
