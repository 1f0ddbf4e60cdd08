// When the events of a step happen, so that bytes can be drawn over time.
//
// A tape has the seconds of operators. What a step took beside them is spread over them in proportion; where the tape does not
// know backward's operators, what forward left of the step's time is spread evenly over backward.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/simulate/history.h"

namespace retrace::report {

class StepClock {
 public:
  // What was rebuilt takes its time in addition, at the event that asked for it.
  StepClock(const plan::Graph& graph, const plan::History& history);

  // Seconds since the step began. Whatever is rebuilt for an event is rebuilt first, from begin() to ready().
  double begin(size_t event) const { return begin_[event]; }
  double ready(size_t event) const { return ready_[event]; }
  double end() const { return begin_.back(); }

  size_t first_backward() const { return first_backward_; }  // an event; the number of events if there is no backward
  double stretch() const { return stretch_; }                // of what operators took, for the step's other work

 private:
  std::vector<double> begin_, ready_;
  size_t first_backward_ = 0;
  double stretch_ = 1;
};

}  // namespace retrace::report
