// What a step would be under a policy or a budget, in figures that can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <retrace/policy.h>

#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"
#include "plan/solve/plan.h"

namespace retrace::report {

struct RunAgain {
  int64_t times = 0;
  double seconds = 0;
};

struct PolicyFigures {
  std::string policy;
  int64_t peak_bytes = 0;
  size_t peak_event = 0;
  plan::Owners at_peak;
  double average_bytes = 0;  // over the step's time
  double step_seconds = 0;   // rebuilding included
  double extra_seconds = 0;  // rebuilding, storing and loading
  int64_t ops_again = 0;
  std::map<std::string, RunAgain> again;  // by operator
  std::vector<int64_t> event_peaks;
  std::vector<double> event_extra_seconds;

  std::optional<int64_t> budget_bytes;
  std::optional<plan::Plan> plan;  // of a budget that fits
  bool fits = true;                // if not, only the budget and what follows is filled
  int64_t smallest_bytes = 0;  // the smallest budget that would do; of a large tape, the lowest peak of named policies
  plan::Owners smallest_at_peak;

  double ratio(double plain_seconds) const { return plain_seconds > 0 ? step_seconds / plain_seconds : 1; }
};

// `policy` may be a budget, which takes a search; `stop` ends it at the best plan found so far.
PolicyFigures figures_of(const plan::Graph& graph, const Policy& policy, const std::stop_token& stop = {});

// The same for a budget in bytes: the best plan for it (report/budget_plans.h).
PolicyFigures figures_within(const plan::Graph& graph, int64_t budget_bytes, const std::stop_token& stop = {});

// The same for a plan. `graph` is the one it is for.
PolicyFigures figures_by(const plan::Graph& graph, const plan::Plan& plan);

}  // namespace retrace::report
