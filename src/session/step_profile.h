// What a session knows of one kind of step, and how steps of that kind are run.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "session/step_peak.h"
#include "store/kind.h"
#include "tape/budgeted_step.h"
#include "tape/timeline.h"

namespace retrace {

// A plan for one kind of step, with the roots that it does without.
struct FoundPlan {
  plan::Plan plan;
  std::vector<char> unheld_roots;  // by value

  // Makes it a plan for a step that begins with `shift_bytes` more than the graph it was made from.
  void move_to(int64_t budget_bytes, int64_t shift_bytes) {
    plan.budget_bytes = budget_bytes;
    plan.peak_bytes += shift_bytes;
    plan.at_peak.other += shift_bytes;
  }
};

// How steps of a kind run. NotPlanned, Evicting: they keep what autograd saves until memory runs short, because no plan
// was looked for yet, or none is known to take less time.
struct NotPlanned {};
struct Evicting {
  double bound_replay_seconds = 0;  // of any plan
  double planning_seconds = 0;      // that it took to find that out
};
struct Planned {
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<const store::Kinds> kinds;              // by value
  std::shared_ptr<const std::vector<char>> unheld_roots;  // by value
  int64_t start_bytes = 0;                                // live at the start, for which its peak was predicted
  bool followed = false;                                  // to the end of a step
  bool in_background = false;                             // a full search found it there

  int64_t peak_bytes(const StepStart& start) const { return plan->peak_bytes + start.bytes - start_bytes; }
};

struct StepProfile {
  // What the latest step that had no plan and kept the budget has shown.
  struct EvictionRecord {
    double replay_seconds;
    int64_t peak_bytes;
    int64_t start_bytes;
    int64_t budget_bytes;  // that it kept
  };

  StepProfile(Timeline& timeline, const StepStart& start);

  // A step like this has ended. An operator's time is its shortest so far, to price it: noise only adds. The step's
  // time is the usual one, to predict.
  void learn(const BudgetedStep& step, Timeline& timeline, const StepStart& start);
  void learn_graph(Timeline& timeline, const StepStart& start);
  void learn_plan(const BudgetedStep& step, int64_t peak_bytes, const StepStart& start);
  void predict_eviction(int64_t budget_bytes, const StepStart& start);  // by simulation, unless it was seen
  void learn_eviction(const BudgetedStep& step, int64_t peak_bytes, double replay_seconds, const StepStart& start);

  // From now on steps follow the plan, unless eviction has been seen to take less time.
  void adopt(FoundPlan found, const StepStart& start, bool in_background);
  void go_by_eviction(double bound_replay_seconds, double planning_seconds);
  bool can_evict_within(int64_t budget_bytes) const;  // as far as was seen

  const Planned* planned() const { return std::get_if<Planned>(&state); }
  bool is_evicting() const { return std::holds_alternative<Evicting>(state); }
  bool matches(size_t index, uint64_t prefix_hash) const {
    return index < prefix_hashes->size() && (*prefix_hashes)[index] == prefix_hash;
  }
  size_t host_bytes() const;  // that it takes, roughly
  PlanSummary summary(int64_t budget_bytes, const StepStart& start) const;

  int64_t id = 0;
  std::shared_ptr<const plan::Graph> graph;  // of the latest step, with the shortest times and all ways that any showed
  std::shared_ptr<const std::vector<uint64_t>> prefix_hashes;
  StepStart start;                    // of the step in `graph`
  StepPeak plain;                     // for budgets in percent
  std::optional<StepPeak> measured;   // the same, of a step that did nothing else
  int64_t least_bytes = 0;            // in percent: what a step has turned out to need
  bool takes_largest_share = false;   // in percent: with its own share it would be too slow
  int64_t seen = 1;                   // steps like this so far
  int64_t then = 0, then_before = 0;  // ids: the kinds of step that came next, the latest two times
  std::vector<double> step_seconds;   // of the latest steps, rebuilding excluded
  double seconds = 0;                 // the usual one of those
  std::vector<double> shortcuts;      // by op, the shortest measured; 0: only estimated so far
  std::optional<EvictionRecord> eviction;
  std::variant<NotPlanned, Planned, Evicting> state;
  bool as_predicted = true;      // the latest step that followed the plan did as predicted
  bool looked_for_ways = false;  // to hold values in
  bool timed = false;            // by a step that did nothing but follow its plan
  bool better_timed = false;     // times have become better known since the plan was made
  bool wants_search = true;
  bool helped_relatives = false;  // a plan for it was looked for, for steps of other kinds
  int64_t may_replan_at = 0;      // once so many steps were seen: what is never as predicted is not planned every time
  int64_t may_search_at = 2;      // likewise
};

}  // namespace retrace
