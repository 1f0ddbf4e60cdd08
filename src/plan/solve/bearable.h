// The smallest budget at a bearable price.
//
// Close to the smallest budget there is, the last percent of memory can multiply the time of a step. A budget is
// bearable if neither it nor any larger one makes the step more than kBearable times as long as a budget that is larger
// by kSlightly would.
#pragma once

#include "plan/solve/plan.h"

namespace retrace::plan {

inline constexpr double kBearable = 2;     // times
inline constexpr double kSlightly = 0.02;  // of the budget

// A plan for it. Found by quick plans, a few for every doubling of the step's time.
Plan bearable(const Graph& graph);

// For a step that goes by eviction: the budget alone, in a small part of the time. Budgets that could not be simulated
// within the effort count as unbearable.
int64_t bearable_by_eviction(const Graph& graph, int64_t most_effort = kUnlimited);

}  // namespace retrace::plan
