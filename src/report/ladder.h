// Plans for a ladder of budgets, from the smallest at a bearable price up to the plain peak.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/budget_plans.h"

namespace retrace::report {

// At most `rungs` plans, budgets rising and evenly spaced; one that no plan was found for is left out. A larger budget is never slower: one for which a smaller budget's plan is as fast is given that one. `begin` is told what comes
// next, rungs + 1 times, of a large tape by several threads, one at a time. Effort is limited for the ladder as a whole, so that
// the same tape gives the same ladder on any machine.
std::vector<BudgetPlan> ladder(const plan::Graph& tape, int rungs,
                               const std::function<void(const std::string&)>& begin);

// As many as a page shows unless it is told otherwise.
inline int usual_rungs(const plan::Graph& tape) { return is_large(tape) ? 12 : 24; }

}  // namespace retrace::report
