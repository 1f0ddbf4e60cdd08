// A session's memory of its steps: which kinds there are, and when to plan for them.
//
// Planning goes in tiers, like a compiler that works while the program runs:
//   1. A kind of step that is new runs by eviction.
//   2. When it is about to come back it gets a quick plan, in a small part of a step's time, before the step begins.
//   3. A full search runs on a thread of its own, for no longer than it could have saved so far. When a later step
//      begins, what it found is adopted.
// Or, with Planning::foreground, the full search takes the place of the quick plan, and steps wait for it.
// Nothing is planned while an operator runs, or a tape is locked.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <retrace/session.h>
#include <retrace/stats.h>

#include "session/plan_search.h"
#include "session/shortage.h"
#include "session/step_budget.h"
#include "session/step_profile.h"

namespace retrace {

inline constexpr double kLeastSearchSeconds = 0.05;  // beside training, nobody notices so little

// Thread-safe: an open step asks while others may look.
class StepPlanner {
 public:
  StepPlanner(const Budget& budget, Planning planning) : planning_(planning), budget_(budget, profiles_) {}

  // Throws InfeasibleBudget, once, if the step before broke the budget after its last backward.
  std::shared_ptr<BudgetedStep> begin_step(const std::shared_ptr<Timeline>& timeline);
  // Whether nothing is left to learn from steps like the latest: their plan is followed, timed, and holds what it
  // predicts; or eviction takes less time than any plan.
  bool is_settled(const std::shared_ptr<const plan::Graph>& latest) const;
  // Takes the timeline's graph. Returns what is known of such steps by now: the graph, with the shortest times and all
  // ways of holding values that any of them showed.
  std::shared_ptr<const plan::Graph> end_step(const BudgetedStep& step, Timeline& timeline, double replay_seconds);

  std::optional<PlanSummary> summary() const;
  void add_to(Stats& stats) const;  // what is about plans

 private:
  const StepStart& start() const { return budget_.start(); }
  std::string what_may_come() const;  // that a refusal cannot count; empty: nothing
  bool needs_plan(const StepProfile& profile) const;
  void plan(StepProfile& profile);
  void start_search(StepProfile& profile);
  void adopt_found();
  void plan_for_relatives();

  PlanMatch match_for(const StepProfile& profile) const;
  PlanMatch find_match(size_t index, uint64_t prefix_hash);
  PlanMatch no_match() const;

  StepProfile* find_profile(const Timeline& timeline);
  const StepProfile& expected_next() const;
  StepProfile& add_profile(Timeline& timeline);
  void forget_some();
  // Whether such steps get the share of the largest step instead of following this plan. If so, notes that.
  bool asks_for_more(StepProfile& profile, const plan::Plan& plan) const;
  std::string why_no_plan(const BudgetedStep& step, const Timeline& timeline);

  struct Search {
    int64_t profile = 0;
    StepStart start;          // that the plan is for
    int64_t shift_bytes = 0;  // that are live at that start, more than when the graph's step began
    bool for_relatives = false;
    std::unique_ptr<PlanSearch> running;
  };

  const Planning planning_;
  mutable std::mutex mutex_;       // guards what follows
  StepBudget::Profiles profiles_;  // the latest last
  StepBudget budget_;
  Search search_;
  // For steps that have no plan of their own because their sizes or operators are always others.
  std::shared_ptr<const plan::RelatedPlan> related_;
  double related_seconds_ = 0;                          // that such steps have spent rebuilding so far
  double may_relate_at_seconds_ = kLeastSearchSeconds;  // how much of that there must be for the next search
  std::optional<Shortage> refusal_;                     // of a step that broke the budget after its last backward
  int64_t steps_ = 0;
  int64_t profiles_made_ = 0;
  int64_t plans_made_ = 0;
  double planning_seconds_ = 0;
  double background_planning_seconds_ = 0;
  bool followed_ = false;  // the latest step, its plan
  std::string why_not_;
  size_t most_backwards_ = 0;  // of a step so far
  int begun_with_more_ = 0;    // steps in a row that began with more live than the step before
};

}  // namespace retrace
