// Seconds per byte, event by event, and what they make of values: the multipliers of the peak's constraints.
#pragma once

#include <vector>

#include "plan/graph.h"
#include "plan/timeline.h"

namespace retrace::plan {

class Prices {
 public:
  Prices(const Graph& graph, const Timeline& timeline);

  // `per_event`: seconds per byte that is live at each event.
  void set(const std::vector<double>& per_event);

  double plain(ValueId v) const;    // of keeping it as it is
  double encoded(ValueId v) const;  // of keeping it encoded, with the seconds that takes; infinite if it cannot be
  bool better_encoded(ValueId v) const { return encoded(v) < plain(v); }
  const std::vector<double>& keep() const { return keep_; }  // the lesser of the two, by value

 private:
  double between(int32_t begin, int32_t end) const {
    return before_[static_cast<size_t>(end)] - before_[static_cast<size_t>(begin)];
  }

  const Graph& graph_;
  const Timeline& timeline_;
  std::vector<double> before_;  // sums of the prices of all events before
  std::vector<double> keep_;
};

}  // namespace retrace::plan
