// Prices of memory in seconds per byte, event by event, and what they make of values: the multipliers of the
// constraints on the peak.
#pragma once

#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"

namespace retrace::plan {

class Prices {
 public:
  Prices(const Graph& graph, const Lifetimes& lifetimes);

  // `per_event`: seconds per byte that is live at each event.
  void set(const std::vector<double>& per_event);

  double of(ValueId v, int way) const;  // of holding it, with the seconds that takes
  int best_way(ValueId v) const { return best_way_[at(v)]; }
  const std::vector<double>& keep() const { return keep_; }  // in the best way, by value

 private:
  double between(int32_t begin, int32_t end) const { return before_[at(end)] - before_[at(begin)]; }

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  std::vector<double> before_;  // sums of the prices of all events before
  std::vector<double> keep_;
  std::vector<int> best_way_;
};

}  // namespace retrace::plan
