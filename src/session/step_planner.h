// A session's memory of its steps: what they looked like, and the plans made for them.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include <retrace/budget.h>
#include <retrace/errors.h>
#include <retrace/plan.h>
#include <retrace/stats.h>

#include "session/step_peak.h"
#include "tape/budgeted_step.h"
#include "tape/timeline.h"

namespace retrace {

// Thread-safe: an open step asks while others may look.
class StepPlanner {
 public:
  explicit StepPlanner(const Budget& budget) : budget_(budget) {}

  // Throws InfeasibleBudget, once, if the step before broke the budget after its last backward.
  std::shared_ptr<BudgetedStep> begin_step(const std::shared_ptr<Timeline>& timeline);
  // Returns what is known of the step by now: as it was, with the shortest times and the encodings that any like it showed.
  plan::Graph end_step(const BudgetedStep& step, const Timeline& timeline, double replay_seconds);

  std::optional<PlanSummary> summary() const;
  void add_to(Stats& stats) const;  // what is about plans

 private:
  struct EvictionRecord {
    double replay_seconds;
    int64_t peak_bytes;
    int64_t start_bytes;
  };

  StepPeak peak_of(const plan::Graph& graph, const plan::Outcome& outcome) const {  // of the open step, or the latest
    return StepPeak::of(graph, outcome, start_);
  }

  // A step that has been seen, with the plan for it.
  struct StepProfile {
    plan::Graph graph;
    std::shared_ptr<const std::vector<char>> unheld_roots;  // in a step that follows the plan
    StepPeak plain;                                         // for budgets in percent
    std::optional<StepPeak> measured;                       // the same, of a step that did nothing else
    std::shared_ptr<const std::vector<uint64_t>> prefix_hashes;
    std::shared_ptr<const plan::Plan> plan;
    std::shared_ptr<const store::Kinds> kinds;  // by value, of the plan
    int64_t start_bytes = 0;                    // of the step in `graph`
    int64_t planned_start_bytes = 0;            // of the step the plan was made for
    std::vector<double> step_seconds;           // of the latest steps, rebuilding excluded
    std::vector<double> shortcuts;              // by op, the shortest measured; 0: only estimated so far
    std::optional<EvictionRecord> eviction;     // the latest step that had no plan and kept the budget
    bool followed = false;                      // the plan, to the end of a step
    bool stale = false;                         // the plan: the next step needs another
    bool timed = false;                         // by a step that did nothing but follow its plan
  };

  PlanMatch match_for(StepProfile& known);
  std::optional<plan::Plan> make_plan(StepProfile& known, int64_t budget_bytes);
  void prefer_eviction(const StepProfile& known, plan::Plan& plan) const;
  void expect_eviction(const StepProfile& known, plan::Plan& plan) const;
  PlanMatch find_match(size_t index, uint64_t prefix_hash);
  StepProfile* find_known(const std::vector<uint64_t>& prefix_hashes);
  void learn_plain(StepProfile& known, const BudgetedStep& step, const Timeline& timeline);
  int64_t gradients_that_stay(const plan::Graph& graph) const;
  void learn(StepProfile& known, const BudgetedStep& step, const Timeline& timeline, int64_t measured_peak_bytes);
  struct Shortage {
    StepPeak smallest, plain;
    int64_t budget_bytes = 0;
    InfeasibleBudget::Needs needs;
    bool first_step = false;

    int64_t smallest_bytes(const StepStart& start) const;  // of a step that begins with that
  };
  Shortage shortage_of(const plan::Graph& graph, const BudgetedStep& step) const;
  [[noreturn]] static void refuse(const Shortage& shortage, int64_t smallest_bytes);
  int64_t budget_bytes(const StepProfile* known) const;  // of that kind of step; null: of one that is not known
  PlanMatch no_match() const;
  std::string why_no_plan(const BudgetedStep& step, const Timeline& timeline) const;

  const Budget budget_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<StepProfile> known_;
  size_t latest_ = 0;                    // in known_
  std::optional<Shortage> refusal_;      // of a step that broke the budget after its last backward
  std::optional<StepPeak> other_plain_;  // of steps that had no backward
  int64_t steps_ = 0;
  int64_t plans_made_ = 0;
  double planning_seconds_ = 0;
  bool followed_ = false;  // the latest step, its plan
  std::string why_not_;
  int64_t smallest_bytes_ = 0;  // what a best effort has turned out to need
  StepStart start_;             // of the open step
};

}  // namespace retrace
