// Rebuilding values by running their operators again.
#pragma once

#include "policy/segments.h"
#include "tape/tape.h"

namespace retrace {

// The storage that holds `value`, rebuilt if need be. If it throws, the tape is as consistent as before: rebuilt values
// stay if somebody still waits for them, all others are freed. It is a Tape::Rebuild.
c10::Storage rebuild(Tape& tape, ValueId value);

// One rebuild. Runs below autograd, with recording off.
class Replay {
 public:
  explicit Replay(Tape& tape) : tape_(tape) {}

  c10::Storage materialize(ValueId target);

 private:
  c10::Storage attempt(ValueId target);
  bool give_up_waiting();
  void plan(ValueId target);
  void use(ValueId value);
  class Rules;
  bool is_available(ValueId value, const Op* wanted_by);
  c10::Storage obtain(ValueId value, const Op* wanted_by);
  void choose_segment(ValueId target);
  void run(OpId id);
  std::vector<c10::IValue> arguments_of(OpId op, bool with_written);
  c10::Storage scratch_for(OpId op, const TensorArg& arg);
  double call(Op& op, std::vector<c10::IValue>& stack);
  void call_shortcut(Op& op, std::vector<c10::IValue>& stack);
  void store(const Op& op, const std::vector<c10::IValue>& stack);
  void set_rebuilt(const Op& op, ValueId value, const c10::Storage& storage);
  void release(ValueId value);

  Tape& tape_;
  uint32_t serial_ = 0;                // marks the ops of the running attempt
  std::vector<OpId> order_;            // what must run, in the order it was recorded
  std::vector<c10::Storage> scratch_;  // per argument of the running op: the storage it writes
  size_t progress_ = 0;                // in order_
  bool inside_segment_ = false;        // it starts at values that a longer rebuild held between its segments
  Segmentation segments_;
  std::vector<ValueId> made_;     // values rebuilt by the running attempt
  std::vector<ValueId> touched_;  // values whose `uses` it changed
};

}  // namespace retrace
