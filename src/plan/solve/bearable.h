// The smallest budget at a bearable price.
//
// Close to the smallest budget there is, the last percent of memory can multiply the time of a step. A budget is bearable if
// neither it nor any larger one makes the step more than kBearable times as long as one that is kSlightly larger would.
#pragma once

#include <optional>
#include <stop_token>

#include "plan/solve/plan.h"

namespace retrace::plan {

inline constexpr double kBearable = 2;     // times
inline constexpr double kSlightly = 0.02;  // of the budget

// The plan for it, with its budget. By quick plans, a few for every doubling of the step's time. What could not be planned within
// the effort counts as unbearable. None if not even the plain step could be looked at, or `stop` was requested.
std::optional<Plan> bearable(const Graph& graph, int64_t most_effort = kUnlimited, const std::stop_token& stop = {});

}  // namespace retrace::plan
