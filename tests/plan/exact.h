// The exact optimum of the planner's model, by integer programming (Cbc, run as a program).
//
// The model is the bound's (plan/bound/bound.h) with whole choices instead of prices: hold in some way or rebuild each
// value, every event within the budget, replays themselves taking no room. No plan is faster than its optimum; a plan
// that keeps what the optimum keeps and fits is therefore the best there is.
#pragma once

#include <optional>

#include "plan/graph/graph.h"

namespace retrace::plan {

bool have_exact();

struct Exact {
  double seconds = 0;  // of rebuilding, storing and loading
  Choices choices;
};

// None if the model has no solution within the budget.
std::optional<Exact> solve_exact(const Graph& graph, int64_t budget_bytes);

}  // namespace retrace::plan
