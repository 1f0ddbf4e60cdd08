// Simulates choices that differ in little from a base, in time that depends on the difference.
//
// The run of the base saves its state at some events of backward, and when each value was first touched. Another choice
// for a value changes nothing before that event but what is live, so a run for it resumes from the last state before
// it. Once the value is no longer needed and everything is as it was in one of the states, the rest is known.
#pragma once

#include <vector>

#include "plan/simulate/step_simulation.h"

namespace retrace::plan {

class IncrementalSimulation {
 public:
  using Limits = StepSimulation::Limits;

  explicit IncrementalSimulation(const Graph& graph, Effort* effort = nullptr);

  Outcome run(const Choices& choices, const Limits& limits);
  Outcome rebase(const Choices& choices, const Limits& limits);  // the same; these choices are the base from now on
  void forget() { states_known_ = 0; }                           // forgets the base

 private:
  Outcome run_whole(const Choices& choices, const Limits& limits);
  bool is_near(const Choices& choices);
  SimulationState* last_untouched(const Choices& choices);
  void change(const SimulationState& state, const Choices& choices, const Limits& limits);
  SimulationState* run_until_same(SimulationState* state, bool remember);
  bool same_as(const SimulationState& state) const;
  SimulationState* end() { return states_.data() + states_known_; }

  StepSimulation simulation_;
  size_t stride_ = 0;  // events between states

  // Of the base.
  Choices choices_;
  Outcome outcome_;
  Peaks peaks_;
  std::vector<SimulationState> states_;
  size_t states_known_ = 0;

  std::vector<ValueId> changed_;  // where the new choices differ
};

}  // namespace retrace::plan
