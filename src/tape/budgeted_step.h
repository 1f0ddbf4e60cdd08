// One step under a budget.
//
// It follows a plan for as long as the step does what the planned one did, and keeps everything autograd saves after
// that, or if there is no plan. In both cases it is asked before an allocation would break the budget, and makes the
// tape let go of what is cheapest to be without for the bytes it frees (evict.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>

#include "memory/allocator.h"
#include "plan/solve/plan.h"
#include "plan/solve/related_plan.h"
#include "tape/shared_tape.h"

namespace retrace {

// A plan, and how to tell whether a step is the one it was made for.
struct PlanMatch {
  std::shared_ptr<const plan::Plan> plan;    // null: none
  std::shared_ptr<const plan::Graph> graph;  // of the step it was made for
  std::shared_ptr<const std::vector<uint64_t>> prefix_hashes;
  std::shared_ptr<const store::Kinds> kinds;              // by value: how to hold it; null: as it is
  std::shared_ptr<const std::vector<char>> unheld_roots;  // by value: holding them does not pay
  std::shared_ptr<const plan::RelatedPlan> related;       // for a step without a plan of its own; null: none
  int64_t budget_bytes = 0;                               // of this kind of step; kNoBudget: the step is only measured
  double share = 0;              // of the plain program's peak, that the budget is; 0: it was given in bytes
  bool raised_to_share = false;  // until backward, it rises with what the plain program would have live
  bool is_new = false;           // no step has followed the plan to its end yet
  bool looks_for_ways = false;   // the ways in which values can be held are not known yet
};
inline constexpr int64_t kNoBudget = INT64_MAX;

class BudgetedStep final : public memory::Governor {
 public:
  // `find_match` is asked when the step turns out to differ from its plan at op `index`. It gives the plan of a step
  // that began like this one, if there is one.
  using FindMatch = std::function<PlanMatch(size_t index, uint64_t prefix_hash)>;
  // `refuse` is called when a backward has ended and the step needed more than its budget. It throws, if that is to be
  // refused.
  using Refuse = std::function<void(const BudgetedStep&)>;
  BudgetedStep(store::Kinds kinds, PlanMatch match, FindMatch find_match, Refuse refuse);
  ~BudgetedStep() override;
  void end();

  // The latest step in bytes that has ended and whose graph lives on; or null. It governs backwards that run after it.
  static std::shared_ptr<BudgetedStep> ended_with_graph();

  static int64_t open_steps();  // of the process, on any thread
  // The most that the process would have had live without Retrace since some step was always open, as seen by steps in
  // percent while steps of several threads were open.
  static int64_t shared_plain_bytes();

  // How many more bytes the graphs that ended steps have left alive would take without Retrace.
  static int64_t forgotten_by_ended_steps();

  // The step runs as the plain program and is written down: nothing is forgotten.
  bool only_measures() const { return only_measures_; }
  bool is_in_bytes() const { return match_.share == 0 && !only_measures_; }  // the budget; false if it is not known
  bool holds_root(ValueId value) const;

  void attach(const std::shared_ptr<SharedTape>& shared, Tape& tape);
  // Whether `op`, which is about to run, is what the plan has at `index`, as far as that can be told now.
  bool expects(const Op& op, size_t index) const;
  void meets_op(size_t index, uint64_t prefix_hash, uint64_t kind);
  void begins_backward();  // with its tape not locked

  // Whether a plan says what becomes of values. Otherwise everything that autograd saves is kept until memory runs
  // short.
  bool follows_plan() const { return match_.plan != nullptr; }
  plan::Choice choice(ValueId value) const;
  plan::RelatedPlan::Advice advice(size_t result) const;  // on a result of the operator of the latest meets_op()
  const std::shared_ptr<const plan::Plan>& plan() const { return match_.plan; }
  const store::Kind* kind(ValueId value) const;         // that the plan holds it by; null: as it is
  const store::Kinds& kinds() const { return kinds_; }  // that values may be held by
  // Of a step that has ended: it was all of the step that its plan is for, not only the beginning of it.
  bool ends_with_plan(size_t ops) const { return match_.plan && match_.prefix_hashes->size() == ops; }
  // It has followed one plan from its beginning, not first one and then another.
  bool kept_to_plan() const { return !changed_plan_; }
  bool looks_for_ways() const { return match_.looks_for_ways && !match_.plan; }
  bool plan_is_new() const { return match_.plan && match_.is_new; }
  bool is_lossy() const { return match_.plan && match_.plan->lossy_values() > 0; }  // nothing to compare then

  // The budget as given; and as it is kept. Once it is broken, what was needed so far takes its place: to fight for
  // every byte of a budget that cannot hold would only take time.
  int64_t given_bytes() const { return given_bytes_; }
  int64_t budget_bytes() const override { return std::max<int64_t>(given_bytes_, most_wanted_bytes_); }
  void make_space(int64_t bytes) override;
  void make_space_for_other(int64_t bytes) override;  // if nothing can go, the other takes what it needs

  // A step of this session had so many backwards: until they have run, what the step needs is not known.
  void expect_backwards(size_t backwards) { backwards_to_come_ = backwards; }
  // One has ended: throws if it was the last, and the step needed more than its budget.
  void backward_ended(bool another_is_likely);
  bool refused() const { return refused_; }
  int64_t evictions() const { return evictions_; }
  int64_t most_wanted_bytes() const { return most_wanted_bytes_; }  // the most that was needed above the budget, or 0

 private:
  class Turn;
  using Tapes = std::vector<std::shared_ptr<SharedTape>>;
  using Time = SharedTape::Entry::Clock::time_point;
  bool claim(int64_t bytes) const { return memory::claim(bytes, budget_bytes()); }
  bool has_share_of_shared() const { return match_.share != 0 && !only_measures_ && open_steps() > 1; }
  void raise_budget(SharedTape& own, int64_t bytes);
  void raise_shared_budget(const Tapes& tapes, int64_t bytes);
  void let_go_extras(SharedTape& own, int64_t bytes);
  bool evict_from(const Tapes& tapes, const Turn& turn, Time until);

  const bool only_measures_;
  const store::Kinds kinds_;
  PlanMatch match_;
  std::atomic<int64_t> given_bytes_;  // match_'s, for other threads
  FindMatch find_match_;
  Refuse refuse_;
  std::weak_ptr<SharedTape> tape_;
  plan::RecentOps recent_;
  bool diverged_ = false;
  bool changed_plan_ = false;
  bool refused_ = false;
  size_t backwards_to_come_ = 0;
  bool ended_ = false;
  ValueId raise_again_at_ = 0;                 // how many values the tape has when raise_budget() looks again
  std::atomic<int64_t> evictions_{0};          // from its tape; other steps evict, too
  std::atomic<int64_t> most_wanted_bytes_{0};  // written by its own thread
};

}  // namespace retrace
