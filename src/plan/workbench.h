// What all strategies for one graph share, and the strategies themselves.
#pragma once

#include <vector>

#include "plan/bound.h"
#include "plan/graph.h"
#include "plan/mincut.h"
#include "plan/search.h"
#include "plan/timeline.h"
#include "plan/trade.h"

namespace retrace::plan {

struct Workbench {
  Workbench(const Graph& g, Listener& listener)
      : graph(g),
        timeline(g),
        cut(g, timeline),
        bound(g, timeline, cut),
        search(g, timeline, listener),
        trade(g, timeline, search) {}

  const Graph& graph;
  Timeline timeline;
  MinCut cut;
  Bound bound;
  Search search;
  Trade trade;
};

// Values that everything later is computed from alone, in order: where a chain can be cut.
std::vector<ValueId> cut_vertices(const Workbench& bench);

// Keeps what autograd saved, as a program without Retrace does.
Choices keep_saved(const Graph& graph);

// The strategies. Each returns the best it found, which need not fit the budget: look at the peak. Those that start from
// prices expect bench.bound to have been raised for this budget.
Candidate solve_mincut(Workbench& bench, int64_t budget_bytes);
Candidate solve_chain(Workbench& bench, int64_t budget_bytes);
Candidate solve_every(Workbench& bench, int64_t budget_bytes, Choice others = {});
Candidate solve_greedy(Workbench& bench, int64_t budget_bytes);
Candidate solve_best(Workbench& bench, int64_t budget_bytes);

// Plans for several budgets at once, rising, from a start that need not fit any; first for the one with number `first`.
// Whoever listens to bench.search hears of them.
void trade(Workbench& bench, const std::vector<int64_t>& budgets, size_t first, const Choices& start, uint32_t seed,
           double effort);
bool tradeable(const Graph& graph);  // small enough for it

// Fits, and so close to the bound that more is not worth the time.
bool good(const Workbench& bench, const Candidate& best, int64_t budget_bytes);

// Fits and is faster; or neither fits and is lower.
bool better(const Candidate& a, const Candidate& b, int64_t budget_bytes);

}  // namespace retrace::plan
