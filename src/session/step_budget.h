// How many bytes a session's steps may have: as many as were given or, in percent of the plain program's peak, as many as
// that comes to for a kind of step with what is live when it begins.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <retrace/budget.h>

#include "session/step_profile.h"

namespace retrace {

class StepBudget {
 public:
  using Profiles = std::vector<std::unique_ptr<StepProfile>>;
  StepBudget(const Budget& budget, const Profiles& profiles) : budget_(budget), profiles_(profiles) {}

  const Budget& given() const { return budget_; }
  const StepStart& start() const { return start_; }  // of the open step, or the latest
  int64_t bytes(const StepProfile* profile) const;   // of that kind of step; null: of an unknown kind
  bool is_in_doubt() const;                          // about the gradients that the open step began with
  bool is_within_percent(const BudgetedStep& step, const Timeline& timeline) const;

  StepStart begin_step();  // returns the start of the step before
  void end_step();
  // What a step has shown that has ended: that a best effort needs more; or what the plain program takes.
  void broken_by(const plan::Graph& graph);
  void learn_without_backward(const plan::Graph& graph, const BudgetedStep& step, const Timeline& timeline);
  void learn(StepProfile& profile, const BudgetedStep& step, const Timeline& timeline);

 private:
  StepPeak plain_of(const plan::Graph& graph, const BudgetedStep& step, const Timeline& timeline) const;
  void learn_plain(StepProfile& profile, const BudgetedStep& step, const Timeline& timeline);
  int64_t gradients_that_stay(const plan::Graph& graph) const;

  const Budget budget_;
  const Profiles& profiles_;
  StepStart start_;
  std::optional<StepPeak> other_plain_;   // of steps that had no backward
  std::optional<double> gradients_stay_;  // share of those live at a step's start that stay until backward
  int64_t smallest_bytes_ = 0;            // what a best effort has turned out to need
  int64_t forgotten_bytes_ = 0;           // at its start: what the plain program would have had live beyond that
  bool shares_memory_ = false;            // steps of other threads have been open at the same time
  int64_t shared_plain_bytes_ = 0;        // the most that the plain program would have had live then
  bool begins_shared_ = false;            // other steps were open when the open step began
};

}  // namespace retrace
