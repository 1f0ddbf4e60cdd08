// A proven lower bound on the seconds any plan spends rebuilding, and the prices that prove it.
//
// At every event, what is live anyway and what is kept must fit the budget. Each such constraint gets a price in
// seconds per byte. For any prices: the least cost of a selection (one minimum cut), less the price of the headroom at
// every event, is at most the seconds of any plan within the budget. The best prices are sought by subgradient steps at
// a few dozen events that matter; whatever they are, the bound is valid.
#pragma once

#include <vector>

#include "plan/bound/mincut.h"
#include "plan/bound/prices.h"
#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"

namespace retrace::plan {

class Bound {
 public:
  Bound(const Graph& graph, const Lifetimes& lifetimes, MinCut& cut);

  // Raises the bound for this budget, until `steps` are spent or it is close to `target_seconds`, which the best known
  // plan takes. Starts from the prices of the last call.
  void tighten(int64_t budget_bytes, double target_seconds, int steps);

  void reset();  // forgets the prices

  double seconds() const { return best_; }                               // the bound
  const std::vector<double>& per_event() const { return best_prices_; }  // the prices that prove it

  // What is cheapest at given prices.
  Choices choices(const std::vector<double>& per_event);

 private:
  // A stretch of the step in which what is kept fills up and drains again: one forward and its backward.
  struct Rise {
    int32_t begin = 0, turn = 0, end = 0;  // events, the end excluded
  };

  std::vector<Rise> find_rises() const;
  std::vector<int64_t> live(const Choices& choices) const;  // at each event, at least, if these choices are made
  void choose_times(int64_t budget_bytes);
  double evaluate(const std::vector<double>& per_event, std::vector<double>& excess);
  std::vector<double> one_price_per_rise();

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  MinCut& cut_;  // shared: a copy of a Bound has prices of its own, not a network of its own
  Prices prices_;
  const std::vector<Rise> rises_;
  std::vector<int32_t> times_;    // events that are priced
  std::vector<double> headroom_;  // for each of them
  std::vector<double> best_prices_;
  double best_ = 0;
};

}  // namespace retrace::plan
