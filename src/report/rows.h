// The tape as rows of a table: forward's operators, what autograd saved of their results, and how long that waits for
// backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/graph/graph.h"
#include "report/step_times.h"

namespace retrace::report {

struct Row {
  std::string shape;         // of its first result, "f32[4, 256, 384]"; empty if not known
  int64_t bytes = 0;         // of the storages it made
  int64_t saved_bytes = 0;   // of its results that autograd saved; of each storage once, for the last content saved
  double wait_seconds = -1;  // from when it ran until backward first asks for one of those; -1 if it never does
  double rebuild_seconds =
      -1;  // to have those again, whatever else was saved being there; -1: there are none to rebuild
};

// One per operator. The times are those of the plain step.
std::vector<Row> rows(const plan::Graph& graph, const StepTimes& times);

// By value, the operator that made its content, whether or not it can be run again; none for what came from outside.
std::vector<plan::OpId> makers(const plan::Graph& graph);

// Where a value belongs: the module of the operator that made it, else its own name.
const std::string& module_of(const plan::Graph& graph, const std::vector<plan::OpId>& makers, plan::ValueId value);

}  // namespace retrace::report
