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
  explicit SolverContext(const Graph& g)
      : graph(g),
        lifetimes(g),
        cut(g, lifetimes),
        bound(g, lifetimes, cut),
        search(g, lifetimes),
        priced_search(g, lifetimes, search) {}

  const Graph& graph;
  Lifetimes lifetimes;
  MinCut cut;
  Bound bound;
  Search search;
  PricedLocalSearch priced_search;
};

}  // namespace retrace::plan
