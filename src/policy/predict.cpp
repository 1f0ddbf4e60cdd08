#include "policy/predict.h"

#include <retrace/errors.h>

#include "plan/solve/plan.h"
#include "policy/predicted_step.h"

namespace retrace {

plan::Outcome predict(const plan::Graph& graph, const Policy& policy, plan::History* history) {
  const PolicyRules& rules = policy.rules();
  if (rules.budget() != nullptr) {
    throw UsageError("[predict] '" + policy.name() +
                     "' is a budget, which takes a plan: make one with plan::solve() and simulate that.");
  }
  if (!rules.may_drop()) return plan::plain(graph, history);
  return PredictedStep(graph, rules).run(history);
}

}  // namespace retrace
