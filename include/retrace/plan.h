// What a Session under a budget has planned. Figures of one step; bytes are of all live tensors, weights included.
#pragma once

#include <retrace/cxx20.h>

#include <cstdint>
#include <string>
#include <vector>

namespace retrace {

// The values that are held in one way.
struct HeldValues {
  std::string kind;  // "as it is", or how they are held instead
  int64_t values = 0;
  int64_t bytes = 0;        // that they take on the device, held in this way
  int64_t plain_bytes = 0;  // that they would take as they are
  bool lossy = false;       // what comes back is not what was there
};

struct PlanSummary {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;           // predicted
  double seconds = 0;               // predicted, of the whole step
  double replay_seconds = 0;        // of those, spent on rebuilding, storing and loading
  double bound_seconds = 0;         // proven: no plan of the same options within the budget takes less for the step
  double gap = 0;                   // (seconds - bound_seconds) / seconds
  std::vector<HeldValues> held;     // way by way, "as it is" first
  int64_t values_kept = 0;          // as they are, of those that autograd saved
  int64_t values_rebuilt = 0;       // of those that autograd saved
  int64_t values_encoded = 0;       // held in any other way
  int64_t values_lossy = 0;         // of values_encoded, with loss: 0 unless the budget allows it
  int64_t encoded_bytes = 0;        // of values_encoded: what they take on the device
  int64_t encoded_plain_bytes = 0;  // of values_encoded: what they would take as they are
  std::string strategy;             // that found the plan; "eviction": it takes less time than any plan found
  double planning_seconds = 0;
  bool in_background = false;  // planned on another thread, while training went on
};

}  // namespace retrace
