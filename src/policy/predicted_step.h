// One step under a named policy, predicted from a tape of it: what the runtime's tape does without a budget, over a
// simulation.
//
// The runtime follows the same rules: policy/cut_stack.h, hold_instead.h, small_from_large.h, segments.h, balance.h,
// between_backwards.h, overwritten_root.h and plan/simulate/sweep.h. Only when they are asked is written here again, as
// in Arguments::prepare_write() and PlainGovernor.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/simulate/step_simulation.h"
#include "policy/balance.h"
#include "policy/between_backwards.h"
#include "policy/cut_stack.h"
#include "policy/hold_if_better.h"
#include "policy/rules.h"
#include "policy/segments.h"
#include "policy/sweeping.h"
#include "policy/tape_view.h"

namespace retrace {

class PredictedStep final : private plan::StepRules, private TapeView {
 public:
  using ValueId = plan::ValueId;
  using OpId = plan::OpId;
  PredictedStep(const plan::Graph& graph, const PolicyRules& rules);

  plan::Outcome run(plan::History* history = nullptr);  // which is filled event by event, if given

 private:
  // What happens.
  void op_begins(OpId op) override;
  void op_ran(OpId op) override;
  void held(ValueId value) override { since_balance_.held(*this, value); }
  void saving(ValueId value) override;
  void saved(ValueId value) override;
  void followed(ValueId value) override;
  void dropped(ValueId value) override;
  void in_hand(ValueId value, int by) override { state(value).in_hand += by; }
  void nobody_alive(ValueId value) override;
  void unpacking(plan::HandleId handle) override;
  void rebuild_begins(ValueId target, const std::vector<OpId>& order) override;
  void rebuilt(ValueId value) override { since_balance_.rebuilt(*this, value); }
  void rebuild_ended() override { rebuilding_ = false; }
  void unpacked(ValueId value) override { between_backwards_.unpacked(*this, value); }
  void backward_ends(bool recorded) override { between_backwards_.ends(*this, recorded); }
  void peak_rises(int64_t more_bytes) override;

  // What the rules look at, and do.
  Value value(ValueId id) const override;
  ValueId next_value() const { return static_cast<ValueId>(graph_.values.size()); }
  ValueId present_from(ValueId id) override;
  std::vector<ValueId> saved() const override;
  bool is_shared(ValueId id) const override;
  bool is_elsewhere(ValueId id) const override;
  OpId next_op() const override { return next_op_; }
  OpId backward_at() const override { return backward_at_; }
  bool has_op(OpId id) const { return repeatable_[plan::at(id)] != 0; }
  OpId op_from(OpId id) const override {
    while (id < next_op_ && !has_op(id)) ++id;
    return id < next_op_ ? id : plan::kNone;
  }
  OpId op_before(OpId id) const override {
    while (--id >= 0 && !has_op(id)) {
    }
    return id;
  }
  bool is_alive(OpId id) const override { return simulation_.now().ops[plan::at(id)].alive > 0; }
  bool is_pending(OpId id) const override { return simulation_.now().ops[plan::at(id)].pending > 0; }
  std::vector<Arg> args(OpId id) const override;
  std::vector<ValueId> results(OpId id) const override;
  void begin_walk() override { ++walk_; }
  bool was_at_op(OpId id) override { return std::exchange(op_walks_[plan::at(id)], walk_) == walk_; }
  bool was_at_value(ValueId id) override { return std::exchange(state(id).walk, walk_) == walk_; }
  void hold(ValueId id) override;
  bool hold_at_hand(ValueId id) override;
  bool hold_given(ValueId id) override;
  void let_go(ValueId id) override;
  void give_up(ValueId id) override;
  bool may_have_idle() const override { return sweeping_.may_have_idle(); }
  bool let_go_idle() override;
  void let_go_roots() override;

  void decide(const PolicyRules& rules);
  void run_backward(const plan::Backward& backward);
  bool copy_may_pay(OpId op, ValueId before) const;
  void prepare_write(OpId op, const plan::Arg& arg);

  void sweep_if_due();
  void collect();
  class Swept;
  bool is_root(ValueId id) const { return simulation_.now().values[plan::at(id)].producer == plan::kNone; }
  bool is_held(ValueId id) const;

  // What a simulated value does not have.
  struct State {
    OpId recorded_at = plan::kNone;
    OpId last_read_by = plan::kNone;
    int32_t handles = 0;
    int32_t in_hand = 0;  // handles that backward has unpacked and not let go of
    uint32_t walk = 0;
    bool consumed = false;       // an op that can be run again reads it
    bool external_held = false;  // held, and from outside the step: its bytes are "other" either way
    bool copied = false;         // before it was overwritten
    bool weighed = false;        // a root, against what can be forgotten because it is held
    bool starts_segment = false;
  };
  State& state(ValueId id) { return states_[plan::at(id)]; }
  const State& state(ValueId id) const { return states_[plan::at(id)]; }

  const plan::Graph& graph_;
  plan::StepSimulation simulation_;
  plan::Choices choices_;
  std::vector<State> states_;     // by value
  std::vector<char> repeatable_;  // by op: it can be run again
  std::optional<CutStack> cuts_;
  HoldIfBetter hold_if_better_;
  Segmenting segmenting_;
  BetweenBackwards between_backwards_;
  OpId next_op_ = 0;
  bool in_backward_ = false;  // one that is not recorded
  OpId backward_at_ = plan::kNone;
  std::vector<ValueId> copies_;  // made for the running op, of what it overwrites

  // What is held in vain.
  SinceBalance since_balance_;
  int64_t plain_peak_bytes_ = 0;
  bool rebuilding_ = false;

  Sweeping sweeping_;

  std::vector<uint32_t> op_walks_;
  uint32_t walk_ = 0;
};

}  // namespace retrace
