#include "report/ladder.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "plan/simulate/effort.h"
#include "report/parallel.h"
#include "report/table.h"

namespace retrace::report {
namespace {

constexpr double kSearchSeconds = 24, kSearchSecondsIfLarge = 4;  // of all rungs, as effort

using Rung = std::optional<BudgetPlan>;

// Plans for a large tape share nothing, so they are made side by side; of a smaller one, each helps the next.
std::vector<Rung> plans_within(const plan::Graph& tape, BudgetPlans& plans, const std::vector<int64_t>& budgets,
                               const std::function<void(const std::string&)>& begin) {
  std::vector<Rung> rungs(budgets.size());
  std::mutex mutex;
  const auto plan_one = [&](size_t i) {
    {
      const std::lock_guard lock(mutex);
      begin("budget " + human_bytes(budgets[i]));
    }
    rungs[i] = plans.within(budgets[i]);
    if (rungs[i]) rungs[i]->plan.budget_bytes = budgets[i];
  };
  if (is_large(tape)) {
    in_parallel(budgets.size(), plan_one);
  } else {
    for (size_t i = 0; i < budgets.size(); ++i) plan_one(i);
  }
  return rungs;
}

}  // namespace

std::vector<BudgetPlan> ladder(const plan::Graph& tape, int rungs,
                               const std::function<void(const std::string&)>& begin) {
  begin("smallest budget");
  const double seconds = is_large(tape) ? kSearchSecondsIfLarge : kSearchSeconds;
  BudgetPlans plans(tape, plan::events_in(seconds / std::max(1, rungs)));
  const int64_t most = plan::plain(tape).peak_bytes, least = plans.bearable_bytes();
  std::vector<int64_t> budgets;
  for (int i = 0; i < rungs; ++i) budgets.push_back(least + (rungs == 1 ? 0 : (most - least) * i / (rungs - 1)));
  std::vector<Rung> planned = plans_within(tape, plans, budgets, begin);
  std::vector<BudgetPlan> found;
  for (Rung& rung : planned) {
    if (!rung) continue;
    if (!found.empty() && found.back().plan.replay_seconds <= rung->plan.replay_seconds) {
      const plan::Plan own = rung->plan;
      rung = found.back();
      rung->plan.bound_seconds = own.bound_seconds;
      rung->plan.budget_bytes = own.budget_bytes;
    }
    found.push_back(std::move(*rung));
  }
  return found;
}

}  // namespace retrace::report
