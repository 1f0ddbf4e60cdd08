// The strategies: each looks for a plan within one budget in its own way.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/solve/plan.h"
#include "plan/solve/solver_context.h"

namespace retrace::plan {

// Each returns the best that it found, which need not fit: look at its peak. Those that start from prices expect that
// context.bound was tightened for this budget. `best` is the best found by others so far, if there is one.
struct Strategy {
  const char* name;
  Candidate (*solve)(SolverContext& context, int64_t budget_bytes, const Candidate& best);
  bool in_best;  // "best" tries it, in the table's order; the others are for comparison
};
std::span<const Strategy> all_strategies();

// Keeps what autograd saved, as a program without Retrace does.
Choices keep_saved(const Graph& graph);

// Everything is rebuilt whenever it is asked for: the lowest of the peaks that need no search. Without choices if the
// peak or the replay is above these limits, or the effort was stopped.
Candidate rebuild_each_time(const Graph& graph, Effort& effort, int64_t most_bytes, double most_seconds);

// Holds some cut vertices and makes `others` of all else: the lowest peak that was found this way; empty if there was
// none.
Candidate lowest_of_segments(SolverContext& context, Choice others);
Candidate solve_from_frontiers(SolverContext& context, int64_t budget_bytes, const Candidate& best);
// What a step that evicts would let go of, as choices: simulated, and neither repaired nor filled.
Candidate evicted(SolverContext& context, int64_t budget_bytes);
Candidate solve_from_eviction(SolverContext& context, int64_t budget_bytes, const Candidate& best);

// Searches for several budgets at once, in rising order, from a start that need not fit any; first for the budget with
// number `first`. What it finds is in context.search.front().
inline constexpr const char* kPricedSearch = "priced_search";
void search_by_price(SolverContext& context, const std::vector<int64_t>& budgets, size_t first, const Choices& start,
                     uint32_t seed, double effort);
bool can_search_by_price(const Graph& graph);  // small enough for it

// As in plan.h; its effort counts against one that is shared with others.
std::optional<Plan> quick_solve(const Graph& graph, int64_t budget_bytes, Effort& effort);

// Choices as a plan: simulated once more. No plan within the budget rebuilds in less than `bound_seconds`.
Plan plan_of(const Graph& graph, Choices choices, int64_t budget_bytes, std::string strategy, double bound_seconds);

// Repaired until it fits, then filled.
Candidate finish(SolverContext& context, Candidate start, int64_t budget_bytes);

// Whether it fits, and is so close to the bound that more is not worth the time.
bool close_to_bound(const SolverContext& context, const Candidate& best, int64_t budget_bytes);

}  // namespace retrace::plan
