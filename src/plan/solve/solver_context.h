// What all strategies for one graph share.
#pragma once

#include "plan/bound/bound.h"
#include "plan/bound/mincut.h"
#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"
#include "plan/solve/priced_local_search.h"
#include "plan/solve/search.h"

namespace retrace::plan {

struct SolverContext {
  SolverContext(const Graph& g, Effort& e, Search::Runs runs = Search::Runs::incremental)
      : graph(g),
        effort(e),
        lifetimes(g),
        cut(g, lifetimes, &e),
        bound(g, lifetimes, cut),
        search(g, lifetimes, e, runs),
        priced_search(g, lifetimes, search, e) {}

  const Graph& graph;
  Effort& effort;
  Lifetimes lifetimes;
  MinCut cut;
  Bound bound;
  Search search;
  PricedLocalSearch priced_search;
};

}  // namespace retrace::plan
