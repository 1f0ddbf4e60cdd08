// Policies against the plain run, in one process: first whether they compute the same, then what they save and cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <retrace/plan.h>

#include "models/models.h"

namespace retrace::cli {

struct Measurement {
  std::string policy;
  std::string difference;        // what differed from the plain run, or how the step failed; empty if nothing
  std::vector<double> seconds;   // one per round; empty if something differed
  std::vector<double> ratios;    // to the plain steps before and after
  int64_t peak_bytes = 0;        // all live tensor bytes
  int64_t step_peak_bytes = 0;   // above what was live when the step began: gradients count, weights do not
  int64_t activation_bytes = 0;  // the peak of live bytes less weights and gradients
  int64_t kept_bytes = 0;        // what the forward pass left live for backward
  int64_t ops_recorded = 0;
  int64_t ops_replayed = 0;
  std::vector<double> replay_seconds;  // one per round
  std::optional<int64_t> budget_bytes;
  int64_t first_step_peak_bytes = 0;  // of the step before the rounds, which has no plan yet
  std::optional<PlanSummary> plan;    // under a budget, after the last round
  int64_t predicted_peak_bytes = 0;   // by the plan of the step that had the highest peak
  int64_t unforeseen_bytes = 0;       // the most that a step's peak was above what its plan had said

  bool gradients_identical() const { return difference.empty(); }
};

// One per policy, the plain run always first. A policy that differs in its check is not timed.
std::vector<Measurement> compare(const models::Model& model, const std::vector<std::string>& policies, int64_t rounds);

}  // namespace retrace::cli
