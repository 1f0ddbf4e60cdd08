// A tape as src/policy's rules see it.
#pragma once

#include "policy/tape_view.h"
#include "tape/counters.h"
#include "tape/tape.h"

namespace retrace {

class RuntimeView final : public TapeView {
 public:
  // `saved_in`: where what is being saved is now, if something is. What is let go of counts as dropped for `counters`.
  explicit RuntimeView(Tape& tape, const c10::Storage* saved_in = nullptr, const StepCounters* counters = nullptr)
      : tape_(tape), saved_in_(saved_in), counters_(counters) {}

  Value value(ValueId id) const override;
  ValueId present_from(ValueId id) override { return tape_.present_from(id); }
  std::vector<ValueId> saved() const override;
  bool is_shared(ValueId id) const override;
  bool is_elsewhere(ValueId id) const override;
  OpId next_op() const override { return tape_.next_op(); }
  OpId backward_at() const override { return tape_.backward_at(); }
  OpId op_from(OpId id) const override { return tape_.op_from(id); }
  OpId op_before(OpId id) const override { return tape_.op_before(id); }
  bool is_alive(OpId id) const override { return tape_.op(id).alive > 0; }
  bool is_pending(OpId id) const override { return tape_.op(id).pending > 0; }
  std::vector<Arg> args(OpId id) const override;
  std::vector<ValueId> results(OpId id) const override;

  void begin_walk() override { walk_ = tape_.next_pricing(); }
  bool was_at_op(OpId id) override { return std::exchange(tape_.op(id).priced, walk_) == walk_; }
  bool was_at_value(ValueId id) override { return std::exchange(tape_.value(id).priced, walk_) == walk_; }

  void hold(ValueId id) override { tape_.hold(id, *saved_in_); }
  bool hold_at_hand(ValueId id) override;
  bool hold_given(ValueId id) override;
  void let_go(ValueId id) override;
  void give_up(ValueId id) override;
  bool may_have_idle() const override { return tape_.sweeping.may_have_idle(); }
  bool let_go_idle() override { return retrace::let_go_idle(tape_); }
  void let_go_roots() override { retrace::let_go_roots(tape_); }

 private:
  Tape& tape_;
  const c10::Storage* saved_in_;
  const StepCounters* counters_;
  uint32_t walk_ = 0;
};

}  // namespace retrace
