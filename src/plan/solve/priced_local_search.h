// Trades seconds for bytes, value by value.
//
// Every byte above a budget has a price. While that is low, plans are fast and do not fit; as it rises they give up
// what costs least time. The simulator judges every change, so replays that need many bytes at once count as they are.
// When a plan fits, the next smaller budget is the aim, and after the smallest the largest again at a low price: what
// was given up too early comes back, and the next way down is another. All plans on the way are in the search's front.
// A heuristic, for graphs of up to some thousand values, where a simulator run takes microseconds.
#pragma once

#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"
#include "plan/solve/replay_estimate.h"
#include "plan/solve/search.h"

namespace retrace::plan {

class PricedLocalSearch {
 public:
  PricedLocalSearch(const Graph& graph, const Lifetimes& lifetimes, Search& search, const Effort& effort);

  // Up to `runs` simulator runs for a few budgets, in rising order, from choices that need not fit. The aim is first
  // the budget with number `first`.
  void explore(const Choices& start, const std::vector<int64_t>& budgets, size_t first, int64_t runs, uint32_t seed);

  size_t values() const { return values_.size(); }  // that it tries to change

 private:
  struct Offer {
    Choice to;
    double cost = 0;
  };
  // What a change did when it was last tried: it will do much the same, at another price.
  struct Memory {
    int sweep = -1'000;
    double seconds = 0, excess = 0;
  };

  void reset(ValueId v);
  void shuffle();
  bool fits(const Outcome& outcome) const { return outcome.peak_bytes <= budget_bytes_; }
  Price price() const;
  double cost(const Outcome& outcome) const;
  void rebase();
  bool done() const { return search_.runs() >= last_run_ || effort_.exhausted(); }
  bool sweep();
  bool improve(ValueId v);
  void try_one(ValueId v, Choice to, Offer& best);
  bool worth_trying(ValueId v, Choice to) const;
  bool hopeless(ValueId v, Choice to);
  bool over_during(ValueId v) const;
  double excess_change(ValueId v, int64_t bytes) const;
  void ban_one();

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  Search& search_;
  const Effort& effort_;
  ReplayEstimate estimate_;
  std::vector<ValueId> values_;
  std::vector<int32_t> readers_;  // by value: operators that look at it

  int64_t budget_bytes_ = 0, last_run_ = 0;
  double price_ = 0;  // seconds per byte
  Choices now_;
  Outcome outcome_;  // of now_
  int sweeps_ = 0;
  std::vector<int32_t> over_until_;   // by event: how many before it are over the budget
  std::vector<Memory> memory_;        // by value and choice
  std::vector<size_t> first_memory_;  // by value
  std::vector<int> banned_;           // by value: not to be kept before that sweep
  uint32_t random_ = 0;
};

}  // namespace retrace::plan
