// Roots that a rebuild could read only because the tape holds them: autograd did not save them, and the program lets go
// of them in forward. The plain program frees them then.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

// Marks those, by value. Holding one must pay.
std::vector<char> unsaved_roots(const Graph& graph);

// Marks those of them, and of what came from outside the step, that do not pay: because of them nothing larger can be
// forgotten.
std::vector<char> idle_roots(const Graph& graph);

// The step if these roots are not held: what reads them cannot be run again, so its results are roots.
Graph without(Graph graph, const std::vector<char>& roots);

}  // namespace retrace::plan
