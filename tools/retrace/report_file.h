// Writes the report of a tape, with progress on a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "plan/graph/graph.h"
#include "plan/solve/plan.h"

namespace retrace::cli {

struct NamedPlan {
  plan::Plan plan;
  std::string name;
};

// Replaces `path` when the page is whole; returns its size in bytes. `title`: what the page calls the tape. Throws
// BadInput if this program was built without the page, UsageError if the file cannot be written or the plan is for
// another tape.
size_t write_report(const plan::Graph& graph, const std::string& title, const std::optional<NamedPlan>& plan, int rungs,
                    const std::string& path);

}  // namespace retrace::cli
