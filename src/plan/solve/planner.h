// Plans for one graph, budget by budget.
//
// A larger budget must never give a slower plan. So budgets are solved on a fixed ladder of rungs, in groups of a few
// rungs that are solved together and whatever else was solved before; the plan for a budget is the fastest that fits of
// the group it falls into and of all lower ones, down to where the bound shows that no plan could be faster. Whatever a
// smaller budget was given, a larger one has thus seen, or has something at least as fast. In a small graph, where a
// percent is coarse, all rungs are one group.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/solve/plan.h"
#include "plan/solve/solver_context.h"

namespace retrace::plan {

class Planner : private Listener {
 public:
  explicit Planner(const Graph& graph);  // `graph` must outlive it
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // `strategy` other than "best": for this budget alone, as it comes.
  Answer solve(int64_t budget_bytes, const std::string& strategy = "best");
  double lower_bound(int64_t budget_bytes, double target_seconds = 1e300);

 private:
  using Found = std::vector<Candidate>;  // none slower and higher than another

  void found(const Choices& choices, const Outcome& outcome) override;
  void price(int64_t budget_bytes);
  void make_ladder();
  double bound(size_t number);
  const Found& solve_group(size_t group);
  void trade_group(const std::vector<size_t>& rungs, const Choices& cut, const Choices& lowest, double worst_gap);
  Candidate best_found(int64_t budget_bytes) const;  // by whoever is listened to
  double seconds_found(const std::vector<int64_t>& budgets) const;
  void consider(const Candidate& candidate, int64_t budget_bytes, Candidate& best) const;
  Candidate best_within(int64_t budget_bytes);
  void consider_again(int64_t budget_bytes, Candidate& best) const;
  Candidate alone(int64_t budget_bytes, const std::string& strategy);
  Outcome again() const;
  Answer infeasible(const Outcome& smallest) const;

  const Graph& graph_;
  SolverContext context_;
  Candidate plain_;
  double all_seconds_ = 0;       // of every operator once
  int64_t least_bytes_ = 0;      // the smallest budget, in graphs small enough to ask
  std::vector<int64_t> ladder_;  // bytes of each rung, rising
  size_t group_size_ = 1;
  std::map<size_t, double> bounds_;  // by rung, as far as they are known
  std::map<size_t, Found> groups_;   // those that are solved
  Found* listening_ = nullptr;       // who hears of candidates now,
  int64_t listening_below_ = 0;      // up to this peak
  int64_t priced_bytes_ = -1;        // the budget that the prices on the bench are for
};

}  // namespace retrace::plan
