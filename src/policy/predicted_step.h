// One step under a named policy, told from a tape of it: what the runtime's tape does without a budget, over a simulation.
#pragma once

#include <optional>
#include <vector>

#include "plan/simulate/step_simulation.h"
#include "policy/cut_stack.h"
#include "policy/hold_instead.h"
#include "policy/rules.h"
#include "policy/segments.h"
#include "policy/tape_view.h"

namespace retrace {

class PredictedStep final : private plan::StepRules, private TapeView {
 public:
  using ValueId = plan::ValueId;
  using OpId = plan::OpId;
  PredictedStep(const plan::Graph& graph, const PolicyRules& rules);

  plan::Outcome run(plan::History* history = nullptr);  // told event by event, if one is given

 private:
  // What happens.
  void op_begins(OpId op) override;
  void op_ran(OpId op) override;
  void held(ValueId value) override;
  void saving(ValueId value) override;
  void saved(ValueId value) override;
  void dropped(ValueId value) override;
  void nobody_alive(ValueId value) override;
  void backward_begins() override;
  void rebuild_begins(ValueId target, const std::vector<OpId>& order) override;
  void peak_rises(int64_t live_bytes) override;

  // What the rules look at, and do.
  Value value(ValueId id) const override;
  OpId next_op() const override { return next_op_; }
  bool has_op(OpId id) const override { return repeatable_[plan::at(id)] != 0; }
  bool is_pending(OpId id) const override { return simulation_.now().ops[plan::at(id)].pending > 0; }
  std::vector<Arg> args(OpId id) const override;
  std::vector<ValueId> results(OpId id) const override;
  void begin_walk() override { ++walk_; }
  bool was_at_op(OpId id) override { return std::exchange(op_walks_[plan::at(id)], walk_) == walk_; }
  bool was_at_value(ValueId id) override { return std::exchange(value_walks_[plan::at(id)], walk_) == walk_; }
  void hold(ValueId id) override { simulation_.hold(id, plan::kAsItIs); }
  void let_go(ValueId id) override;

  void decide(const PolicyRules& rules);
  void copy_if_overwritten(const plan::Op& op, const plan::Arg& arg);
  void collect();
  bool let_go_unless_needed(ValueId id, bool wanted);

  const plan::Graph& graph_;
  plan::StepSimulation simulation_;
  plan::Choices choices_;
  std::vector<char> repeatable_;   // by op
  std::vector<OpId> recorded_at_;  // by value
  std::optional<CutStack> cuts_;
  HoldInstead instead_;
  Segmenting segmenting_;

  OpId next_op_ = 0;
  bool keeps_any_ = false;
  std::vector<int32_t> handles_;      // by value
  std::vector<char> consumed_;        // by value: an op that can be run again reads it
  std::vector<char> copied_;          // by value: before it was overwritten
  std::vector<char> starts_segment_;  // by value
  std::vector<uint32_t> op_walks_, value_walks_;
  uint32_t walk_ = 0;
};

}  // namespace retrace
