// When each event of a step happens, in seconds from its start.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::report {

class StepTimes {
 public:
  // What operators took, forward's and backward's, in proportion so that the step is as long as it was measured:
  // between operators nothing was timed. Where a tape knows no operators of backward, what forward leaves is shared by
  // all that backward asks for. `rebuilding`: seconds by event to be added; empty for none.
  explicit StepTimes(const plan::Graph& graph, const std::vector<double>& rebuilding = {});

  double begin(size_t event) const { return begin_[event]; }
  double duration(size_t event) const { return begin_[event + 1] - begin_[event]; }
  double end() const { return begin_.back(); }
  size_t events() const { return begin_.size() - 1; }

  // The mean over time of what each event had at its highest.
  double average(const std::vector<int64_t>& event_peaks) const;

 private:
  std::vector<double> begin_;  // by event, and the end
};

}  // namespace retrace::report
