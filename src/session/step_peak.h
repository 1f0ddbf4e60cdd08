// The peak of a step, and what it would be if other things were live when the step begins.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/solve/plan.h"

namespace retrace {

// What is live when a step begins. Gradients of the step before are as a rule the first thing a step lets go of.
struct StepStart {
  int64_t bytes = 0;  // without gradients
  int64_t gradient_bytes = 0;

  static StepStart now();
  bool operator==(const StepStart&) const = default;
};

struct StepPeak {
  int64_t bytes = 0;
  // What a step makes for good (optimizer state) is there from the beginning of the next.
  int64_t without_made = 0;       // the peak of what the step had not made for good
  int64_t without_gradients = 0;  // the peak of that without gradients
  StepStart start;

  static StepPeak of(const plan::Graph& graph, const plan::Outcome& outcome, const StepStart& start);
  // The peak of such a step that starts with `other`. `staying_gradient_bytes`: how much of the gradients that are live
  // at the start stays live until backward.
  int64_t starting_with(const StepStart& other, int64_t staying_gradient_bytes) const;
  int64_t starting_with(const StepStart& other) const { return starting_with(other, other.gradient_bytes); }
  void raise_to(int64_t least_bytes) { shift(std::max<int64_t>(least_bytes - bytes, 0)); }
  void lower_to(int64_t most_bytes) { shift(std::min<int64_t>(most_bytes - bytes, 0)); }

 private:
  void shift(int64_t by_bytes);
};

}  // namespace retrace
