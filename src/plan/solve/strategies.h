// The strategies: each looks for a plan within one budget in its own way.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/solve/plan.h"
#include "plan/solve/solver_context.h"

namespace retrace::plan {

// Each returns the best it found, which need not fit: look at the peak. Those that start from prices expect context.bound to
// have been tightened for this budget. `best` is the best so far, if there is one.
struct Strategy {
  const char* name;
  Candidate (*solve)(SolverContext& context, int64_t budget_bytes, const Candidate& best);
  bool in_best;  // "best" tries those, in this order; the others are for comparison
};
std::span<const Strategy> all_strategies();

// Keeps what autograd saved, as a program without Retrace does.
Choices keep_saved(const Graph& graph);

// Everything is rebuilt whenever it is asked for: the lowest of the peaks that need no search. Without choices if the peak
// or the replay is above these limits, or the effort was stopped.
Candidate rebuild_each_time(const Graph& graph, Effort& effort, int64_t most_bytes, double most_seconds);

// Values that everything later is computed from alone, in order: where a chain can be cut.
std::vector<ValueId> cut_vertices(const SolverContext& context);
// What holds some cut vertices and makes this of the others, with the lowest peak that was found; empty if none was.
Candidate lowest_of_segments(SolverContext& context, Choice others);
Candidate solve_from_frontiers(SolverContext& context, int64_t budget_bytes, const Candidate& best);
// What a step would let go of that evicts, as choices: simulated, and neither repaired nor filled.
Candidate evicted(SolverContext& context, int64_t budget_bytes);
Candidate solve_from_eviction(SolverContext& context, int64_t budget_bytes, const Candidate& best);
Candidate solve_chain(SolverContext& context, int64_t budget_bytes, const Candidate& best);

// For several budgets at once, rising, from a start that need not fit any; first for the one with number `first`. What it
// finds is in context.search.front().
inline constexpr const char* kPricedSearch = "priced_search";
void search_by_price(SolverContext& context, const std::vector<int64_t>& budgets, size_t first, const Choices& start,
                     uint32_t seed, double effort);
bool can_search_by_price(const Graph& graph);  // small enough for it

// As in plan.h, with what it takes counted among an effort that others share.
std::optional<Plan> quick_solve(const Graph& graph, int64_t budget_bytes, Effort& effort);

// Choices as a plan: simulated once more. No plan within the budget rebuilds in less than `bound_seconds`.
Plan plan_of(const Graph& graph, Choices choices, int64_t budget_bytes, std::string strategy, double bound_seconds);

// Repaired until it fits, then filled.
Candidate finish(SolverContext& context, Candidate start, int64_t budget_bytes);

// Fits, and so close to the bound that more is not worth the time.
bool close_to_bound(const SolverContext& context, const Candidate& best, int64_t budget_bytes);

}  // namespace retrace::plan
