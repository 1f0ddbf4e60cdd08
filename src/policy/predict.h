// What a step would take under a named policy, predicted from a tape of it.
#pragma once

#include <retrace/policy.h>

#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"

namespace retrace {

// One step of `graph` in a Session under a policy that is not a budget: peak, owners, byte curve (event_peaks),
// operators run again and the seconds that takes. `history`, if given, is filled event by event. Throws UsageError for
// a budget (plan::solve() answers those).
plan::Outcome predict(const plan::Graph& graph, const Policy& policy, plan::History* history = nullptr);

}  // namespace retrace
