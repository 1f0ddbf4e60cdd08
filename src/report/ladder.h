// Plans for a ladder of budgets, from the smallest at a bearable price up to the plain peak.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/budget_plans.h"

namespace retrace::report {

// Plans for at most `rungs` budgets, rising and evenly spaced; a budget for which no plan was found is left out. A
// larger budget is never slower: if the plan of a smaller budget is as fast, it is given that plan. `begin` is told
// what comes next, rungs + 1 times; for a large tape by several threads, one at a time. Effort is limited for the
// ladder as a whole, so that the same tape gives the same ladder on any machine.
std::vector<BudgetPlan> ladder(const plan::Graph& tape, int rungs,
                               const std::function<void(const std::string&)>& begin);

// How many a page shows unless it is told otherwise.
inline int usual_rungs(const plan::Graph& tape) { return is_large(tape) ? 12 : 24; }

}  // namespace retrace::report
