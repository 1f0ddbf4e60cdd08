#include "policy/cut_stack.h"

#include <algorithm>

namespace retrace {

void CutStack::pop(TapeView& tape) {
  const Candidate& top = stack_.back();
  if (top.held) {
    const TapeView::Value v = tape.value(top.value);
    if (v.held && !v.wanted && !v.is_root()) tape.let_go(top.value);
  }
  stack_.pop_back();
}

void CutStack::read(TapeView& tape, ValueId value) {
  const TapeView::Value v = tape.value(value);
  if (v.is_root()) return;
  while (!stack_.empty()) {
    const Candidate& top = stack_.back();
    if (top.recorded_at < v.recorded_at || top.value == value) return;
    pop(tape);
  }
}

void CutStack::made(TapeView& tape, ValueId value, ValueId replaced) {
  if (!stack_.empty() && replaced >= 0 && stack_.back().value == replaced) pop(tape);
  const TapeView::Value v = tape.value(value);
  if (!v.is_root()) stack_.push_back({value, v.recorded_at});
}

void CutStack::saved(TapeView& tape, ValueId value) {
  auto candidate = stack_.rbegin();
  while (candidate != stack_.rend() && candidate->value > value) ++candidate;
  if (candidate == stack_.rend() || candidate->value != value || candidate->rank > 0) return;
  const auto below = std::find_if(candidate + 1, stack_.rend(), [](const Candidate& c) { return c.rank > 0; });
  candidate->rank = below == stack_.rend() ? 1 : below->rank + 1;
  candidate->held = keep_period_ > 0 && candidate->rank % keep_period_ == 0 && !tape.value(value).held;
  if (candidate->held) tape.hold(value);
}

std::vector<CutStack::ValueId> CutStack::cuts(const TapeView& tape) {
  std::erase_if(stack_, [&](const Candidate& candidate) { return tape.value(candidate.value).is_root(); });
  std::vector<ValueId> values;
  for (const Candidate& candidate : stack_) {
    if (candidate.rank > 0) values.push_back(candidate.value);
  }
  return values;
}

}  // namespace retrace
