#include "tape/cuts.h"

#include <algorithm>

namespace retrace {

void CutTracker::pop(Tape& tape) {
  const Candidate& top = stack_.back();
  const Value& v = tape.value(top.value);
  if (top.held && v.held && !v.keep && !tape.is_root(v)) {
    tape.let_go(top.value);
    count(counters_, &Counters::dropped_tensors, v.handles);
  }
  stack_.pop_back();
}

void CutTracker::read(Tape& tape, ValueId value) {
  const Value& v = tape.value(value);
  if (tape.is_root(v)) return;
  while (!stack_.empty()) {
    const Candidate& top = stack_.back();
    if (top.recorded_at < v.recorded_at || top.value == value) return;
    pop(tape);
  }
}

void CutTracker::made(Tape& tape, ValueId value, ValueId replaced) {
  if (!stack_.empty() && replaced != kNone && stack_.back().value == replaced) pop(tape);
  if (!tape.is_root(tape.value(value))) stack_.push_back({value, tape.value(value).recorded_at});
}

void CutTracker::saved(Tape& tape, ValueId value, const c10::Storage& storage) {
  auto candidate = stack_.rbegin();
  while (candidate != stack_.rend() && candidate->value > value) ++candidate;
  if (candidate == stack_.rend() || candidate->value != value || candidate->rank > 0) return;
  const auto below = std::find_if(candidate + 1, stack_.rend(), [](const Candidate& c) { return c.rank > 0; });
  candidate->rank = below == stack_.rend() ? 1 : below->rank + 1;
  candidate->held = keep_period_ > 0 && candidate->rank % keep_period_ == 0;
  if (candidate->held) tape.hold(value, storage);
}

std::vector<ValueId> CutTracker::cuts() const {
  std::vector<ValueId> values;
  for (const Candidate& candidate : stack_) {
    if (candidate.rank > 0) values.push_back(candidate.value);
  }
  return values;
}

}  // namespace retrace
