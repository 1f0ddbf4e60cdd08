// The cut vertices of a scope, found while recording; see policy/cut_stack.h.
#pragma once

#include "policy/cut_stack.h"
#include "tape/runtime_view.h"

namespace retrace {

class CutTracker {
 public:
  CutTracker(int64_t keep_period, StepCounters counters) : stack_(keep_period), counters_(std::move(counters)) {}

  void op_ran(Tape& tape, const Op& op) {
    RuntimeView view(tape, nullptr, &counters_);
    stack_.op_ran(view, op);
  }
  void saved(Tape& tape, ValueId value, const c10::Storage& storage) {
    RuntimeView view(tape, &storage, &counters_);
    stack_.saved(view, value);
  }
  std::vector<ValueId> cuts(Tape& tape) { return stack_.cuts(RuntimeView(tape, nullptr, &counters_)); }

 private:
  CutStack stack_;
  StepCounters counters_;
};

}  // namespace retrace
