// Runs many wild programs and says where we stand: a table by variant and fault, and the smallest program of each kind
// of failure.
#pragma once

#include "wild.h"

namespace retrace::random {

struct WildRun {
  uint64_t seed = 0;
  int64_t count = 100;
  int64_t most_printed = 3;  // kinds of failure that are shrunk and printed; 0 for none
  bool shrink_all = false;   // all failures, to tell kinds apart by the statements they need; slow if much fails
  volatile uint64_t* current_seed = nullptr;
  WildChecks checks;
};

// The number of programs with a finding.
int64_t run_wild(const WildRun& run);

}  // namespace retrace::random
