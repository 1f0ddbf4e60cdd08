// What to keep and what to rebuild at given prices, exactly, by one minimum cut.
//
// Project selection: an operator that is run again costs its seconds and needs everything it reads; a value that must
// be available costs its price unless its producer is run again. Values that backward asks for must be available. The
// value of the cut is the least total cost of any selection, so with prices made from multipliers it proves a bound
// (see bound.h).
#pragma once

#include <memory>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"
#include "plan/simulate/effort.h"

namespace retrace::plan {

class MinCut {
 public:
  MinCut(const Graph& graph, const Lifetimes& lifetimes, Effort* effort = nullptr);
  ~MinCut();

  // `keep_prices`: seconds by value. Returns the least cost, rounded down. Builds no network anew.
  double solve(const std::vector<double>& keep_prices);

  bool stopped() const { return effort_ != nullptr && effort_->stopped(); }

  // Of the last solve(): the values that are kept, because they are needed and their producer is not run again.
  const std::vector<ValueId>& kept() const { return kept_; }

 private:
  struct Network;
  Effort* effort_;
  std::unique_ptr<Network> network_;
  std::vector<ValueId> kept_;
};

}  // namespace retrace::plan
