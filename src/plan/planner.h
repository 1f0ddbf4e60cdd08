// Plans for one graph, budget by budget.
//
// A larger budget must never give a slower plan. So budgets are solved on a fixed ladder of rungs, percents of the peak
// that the plain program has, each rung for itself; the plan for a budget is the fastest of the rung just below it and of
// all lower ones, down to where the bound shows that no plan could be faster. Whatever a smaller budget was given, a larger
// one has thus seen, or has something at least as fast. Small graphs, where a percent is coarse, are solved for all rungs at
// once, and a plan found for one rung serves any budget that it fits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/graph.h"
#include "plan/plan.h"
#include "plan/workbench.h"

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
  struct Rung {
    bool impossible = false, solved = false;
    double bound_seconds = 0;
    Found found;  // within the rung's budget
  };

  void found(const Choices& choices, const Outcome& outcome) override;
  void price(int64_t budget_bytes);
  Rung& rung(int64_t number);  // its bound alone
  void solve(Rung& rung, int64_t number);
  int64_t rung_bytes(int64_t number) const;
  void consider(const Candidate& candidate, int64_t budget_bytes, Candidate& best) const;
  void solve_all();
  Candidate best_within(int64_t budget_bytes);
  void consider_again(int64_t budget_bytes, Candidate& best) const;
  Candidate alone(int64_t budget_bytes, const std::string& strategy);
  Answer infeasible(const Outcome& smallest) const;

  const Graph& graph_;
  Workbench bench_;
  Candidate plain_;
  double all_seconds_ = 0;  // of every operator once
  std::map<int64_t, Rung> rungs_;
  Found all_;  // of a small graph
  const bool small_;
  Found* listening_ = nullptr;   // who hears of candidates now,
  int64_t listening_below_ = 0;  // up to this peak
  int64_t priced_bytes_ = -1;    // the budget that the prices on the bench are for
};

}  // namespace retrace::plan
