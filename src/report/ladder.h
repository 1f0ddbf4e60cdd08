// Plans for a ladder of budgets, from one that makes the step a few times as long up to the plain peak.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "plan/solve/plan.h"

namespace retrace::report {

struct Rung {
  std::shared_ptr<const plan::Graph>
      graph;  // that the plan is for: the tape's, without the roots that the plan does without
  plan::Plan plan;
};

// At most `rungs` plans, budgets evenly spaced and rising; a budget that no plan was found for is left out, and one for which a
// smaller budget's plan is as fast is given that one. `each` is called before every rung with its number.
// Effort is limited, so that the same tape gives the same ladder on any machine.
std::vector<Rung> ladder(const plan::Graph& graph, int rungs, const std::function<void(int)>& each);

// The graph that `plan` is for, by which of a tape's roots it does without. Throws what plan::verify() throws if it fits none.
plan::Graph graph_of(const plan::Plan& plan, const plan::Graph& tape);

}  // namespace retrace::report
