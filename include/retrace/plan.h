// What a Session under a budget has planned. Figures of one step; bytes are of all live tensors, weights included.
#pragma once

#include <retrace/cxx20.h>

#include <cstdint>
#include <string>

namespace retrace {

struct PlanSummary {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;     // predicted
  double seconds = 0;         // predicted, of the whole step
  double replay_seconds = 0;  // of those, spent on rebuilding, encoding and decoding
  double bound_seconds = 0;   // proven: no plan of the same options within the budget takes less for the step
  double gap = 0;             // (seconds - bound_seconds) / seconds
  int64_t values_kept = 0;
  int64_t values_encoded = 0;  // kept in fewer bytes
  int64_t values_lossy = 0;    // of those, in bfloat16: 0 unless the budget allows it
  int64_t values_rebuilt = 0;
  int64_t encoded_bytes = 0;        // what the encoded ones take
  int64_t encoded_plain_bytes = 0;  // and would take as they are
  std::string strategy;             // that found the plan
  double planning_seconds = 0;
};

}  // namespace retrace
