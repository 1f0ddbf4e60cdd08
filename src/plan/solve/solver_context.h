// What all strategies for one graph share, and the strategies themselves.
#pragma once

#include <vector>

#include "plan/bound/bound.h"
#include "plan/graph/graph.h"
#include "plan/bound/mincut.h"
#include "plan/solve/search.h"
#include "plan/graph/lifetimes.h"
#include "plan/solve/priced_local_search.h"

namespace retrace::plan {

struct SolverContext {
  SolverContext(const Graph& g, Listener& listener)
      : graph(g),
        lifetimes(g),
        cut(g, lifetimes),
        bound(g, lifetimes, cut),
        search(g, lifetimes, listener),
        trade(g, lifetimes, search) {}

  const Graph& graph;
  Lifetimes lifetimes;
  MinCut cut;
  Bound bound;
  Search search;
  PricedLocalSearch trade;
};

// Values that everything later is computed from alone, in order: where a chain can be cut.
std::vector<ValueId> cut_vertices(const SolverContext& context);

// Keeps what autograd saved, as a program without Retrace does.
Choices keep_saved(const Graph& graph);

// The strategies. Each returns the best it found, which need not fit the budget: look at the peak. Those that start from
// prices expect bench.bound to have been raised for this budget.
Candidate solve_mincut(SolverContext& context, int64_t budget_bytes);
Candidate solve_chain(SolverContext& context, int64_t budget_bytes);
Candidate solve_every(SolverContext& context, int64_t budget_bytes, Choice others = {});
Candidate solve_greedy(SolverContext& context, int64_t budget_bytes);
Candidate solve_best(SolverContext& context, int64_t budget_bytes);

// Plans for several budgets at once, rising, from a start that need not fit any; first for the one with number `first`.
// Whoever listens to bench.search hears of them.
void trade(SolverContext& context, const std::vector<int64_t>& budgets, size_t first, const Choices& start, uint32_t seed,
           double effort);
bool tradeable(const Graph& graph);  // small enough for it

// Fits, and so close to the bound that more is not worth the time.
bool close_to_bound(const SolverContext& context, const Candidate& best, int64_t budget_bytes);

// Fits and is faster; or neither fits and is lower.
bool is_better(const Candidate& a, const Candidate& b, int64_t budget_bytes);

}  // namespace retrace::plan
