#include "tape/cuts.h"

namespace retrace {

void CutTracker::pop(Tape& tape) {
  const Candidate& top = stack_.back();
  const Value& v = tape.value(top.value);
  if (top.held && !v.keep && !tape.is_root(v)) tape.let_go(top.value);
  stack_.pop_back();
}

void CutTracker::read(Tape& tape, ValueId value) {
  const Value& v = tape.value(value);
  if (tape.is_root(v)) return;
  while (!stack_.empty()) {
    const Candidate& top = stack_.back();
    if (top.born < v.born || top.value == value) return;
    pop(tape);
  }
}

void CutTracker::made(Tape& tape, ValueId value, const c10::Storage& storage, ValueId replaced,
                      bool may_hold) {
  if (!stack_.empty() && replaced != kNone && stack_.back().value == replaced) pop(tape);
  if (tape.is_root(tape.value(value))) return;
  const bool held = may_hold && keep_period_ > 0 && static_cast<int64_t>(stack_.size() + 1) % keep_period_ == 0;
  if (held) tape.hold(value, storage);
  stack_.push_back({value, tape.value(value).born, held});
}

std::vector<ValueId> CutTracker::cuts() const {
  std::vector<ValueId> values;
  for (const Candidate& candidate : stack_) values.push_back(candidate.value);
  return values;
}

}  // namespace retrace
