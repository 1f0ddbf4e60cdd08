#include "report/ladder.h"

#include <algorithm>

#include "plan/simulate/effort.h"
#include "report/table.h"

namespace retrace::report {
namespace {

constexpr double kSearchSeconds = 24, kSearchSecondsIfLarge = 4;  // of all rungs, as effort

}  // namespace

std::vector<BudgetPlan> ladder(const plan::Graph& tape, int rungs,
                               const std::function<void(const std::string&)>& begin) {
  begin("smallest budget");
  const double seconds = is_large(tape) ? kSearchSecondsIfLarge : kSearchSeconds;
  BudgetPlans plans(tape, plan::events_in(seconds / std::max(1, rungs)));
  const int64_t most = plan::plain(tape).peak_bytes, least = plans.bearable_bytes();
  std::vector<BudgetPlan> found;
  for (int i = 0; i < rungs; ++i) {
    const int64_t budget_bytes = least + (rungs == 1 ? 0 : (most - least) * i / (rungs - 1));
    begin("budget " + human_bytes(budget_bytes));
    std::optional<BudgetPlan> rung = plans.within(budget_bytes);
    if (!rung) continue;
    if (!found.empty() && found.back().plan.replay_seconds <= rung->plan.replay_seconds) {
      const double bound_seconds = rung->plan.bound_seconds;
      rung = found.back();
      rung->plan.bound_seconds = bound_seconds;
    }
    rung->plan.budget_bytes = budget_bytes;
    found.push_back(std::move(*rung));
  }
  return found;
}

}  // namespace retrace::report
