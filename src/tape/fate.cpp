#include "tape/fate.h"

#include "policy/rules.h"
#include "tape/budgeted_step.h"

namespace retrace {

Fate fate_of(const Tape& tape, ValueId id) {
  const Value& v = tape.value(id);
  const BudgetedStep* const step = tape.budgeted_step.get();
  if (tape.is_root(v)) return step && !step->holds_root(id) ? Fate::unheld_root : Fate::root;
  if (v.keep) return Fate::keep;
  if (!step) return Fate::rebuild;
  if (!step->follows_plan()) return Fate::keep_if_saved;
  return step->choice(id) == plan::Choice::rebuild_each_time() ? Fate::rebuild_each_time : Fate::rebuild;
}

Fate fate_when_saved(const Tape& tape, ValueId id, bool scope_may_drop) {
  return scope_may_drop && !tape.value(id).unwritten ? fate_of(tape, id) : Fate::root;
}

void note_wish(Tape& tape, ValueId id, size_t result, bool policy_keeps) {
  Value& v = tape.value(id);
  const BudgetedStep* const step = tape.budgeted_step.get();
  if (!step) {
    v.keep |= policy_keeps;
  } else if (step->follows_plan()) {
    v.keep = step->choice(id).holds();
    v.kind = step->kind(id);
  } else {
    const auto advice = step->advice(result);
    v.keep = advice == plan::RelatedPlan::Advice::hold;
    v.expendable = advice == plan::RelatedPlan::Advice::forget;
  }
}

bool may_drop(const PolicyRules& rules, const BudgetedStep* budgeted_step) {
  return budgeted_step ? !budgeted_step->only_measures() : rules.may_drop();
}

}  // namespace retrace
