// A step as a Chrome trace, which ui.perfetto.dev and chrome://tracing open: forward, backward and what was rebuilt as
// tracks, live bytes by owner as a counter.
#pragma once

#include <string>
#include <vector>

#include "plan/graph/graph.h"
#include "report/scenario.h"

namespace retrace::report {

// JSON; one process per scenario, one below the other.
std::string chrome_trace(const plan::Graph& graph, const std::vector<Scenario>& scenarios);

}  // namespace retrace::report
