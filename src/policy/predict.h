// What a step would be under a named policy, told from a tape of it.
#pragma once

#include <retrace/policy.h>

#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"

namespace retrace {

// One step of `graph` in a Session under a policy that is not a budget: peak, owners, byte curve (event_peaks), operators run
// again and the seconds that takes. Throws UsageError for a budget (plan::solve() answers those).
// Told event by event if a history is given.
plan::Outcome predict(const plan::Graph& graph, const Policy& policy, plan::History* history = nullptr);

}  // namespace retrace
