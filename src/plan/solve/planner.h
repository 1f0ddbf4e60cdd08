// Plans for one graph, budget by budget.
//
// A larger budget should not give a slower plan. So budgets are solved on a fixed ladder of rungs, in groups of a few
// rungs that are solved together and whatever else was solved before. The plan for a budget is the fastest that fits,
// of the group that the budget falls into and of the next lower groups, down to where the bound shows that no plan is
// noticeably faster. So whatever a somewhat smaller budget was given, a larger one has seen, or has something as fast.
// In the smallest graphs, where a percent is coarse, all rungs are one group.
//
// A group is searched for as long as that can pay: for what its plans could still gain, up to the bound, within so many
// steps.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"

namespace retrace::plan {

class Planner {
 public:
  explicit Planner(const Graph& graph, SolveOptions options = {});  // `graph` must outlive it
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // A strategy other than "best" is asked for this budget alone, not for the rungs of the ladder.
  Answer solve(int64_t budget_bytes);
  void renew_effort() { effort_.renew(options_.most_effort); }  // as much again for further budgets
  // No plan within the budget rebuilds for less than this many seconds. Looks for no more than `target_seconds`.
  double lower_bound(int64_t budget_bytes, double target_seconds = 1e300);

 private:
  Candidate run(const std::string& name, Front* front, const std::function<Candidate()>& strategy);
  void verify_found(const std::string& name, const Candidate& found) const;
  Candidate run_alone(int64_t budget_bytes);
  Candidate solve_rung(size_t number, Front& front);
  const Front& solve_group(size_t group);
  void search_group_by_price(const std::vector<size_t>& rungs, const Choices& cut, const Choices& lowest,
                             double worst_gap, Front& front);

  void price(int64_t budget_bytes);
  int64_t worth(double gap_seconds) const;
  double gap(const Candidate& best, size_t number);
  void make_ladder();
  double bound(size_t number);
  Candidate best_within(int64_t budget_bytes);

  const Graph& graph_;
  const SolveOptions options_;
  Effort effort_;
  SolverContext context_;
  Candidate plain_;
  std::vector<StrategyUse> uses_;
  double all_seconds_ = 0;       // of every operator once
  int64_t least_bytes_ = 0;      // the smallest budget, in graphs small enough to ask
  std::vector<int64_t> ladder_;  // bytes of each rung, rising
  size_t group_size_ = 1;
  std::map<size_t, double> bounds_;  // by rung, as far as they are known
  std::map<size_t, Front> groups_;   // those that are solved
  int64_t priced_bytes_ = -1;        // the budget that the prices in the context are for
};

}  // namespace retrace::plan
