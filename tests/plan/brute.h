// The best of all plans, by trying all of them.
#pragma once

#include <optional>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"

namespace retrace::plan {

struct Tried {
  int64_t peak_bytes;
  double seconds;
};

// Every way to choose for the values that matter; none if there are more than `most` ways.
std::optional<std::vector<Tried>> try_all(const Graph& graph, int64_t most = 5000);

// The least seconds of replay within a budget; none if nothing fits.
std::optional<double> best_of(const std::vector<Tried>& tried, int64_t budget_bytes);

}  // namespace retrace::plan
