// What Retrace did, counted as it happened.
#pragma once

#include <retrace/cxx20.h>

#include <cstdint>
#include <string>

namespace retrace {

struct Stats {
  int64_t steps = 0;         // Session: steps begun. Process: outermost checkpoints and steps
  int64_t ops_recorded = 0;  // operators on the tape (views compute nothing and are not among them)
  int64_t ops_replayed = 0;  // operators run again for backward
  double replay_seconds = 0;
  int64_t saved_tensors = 0;    // tensors autograd asked to save
  int64_t dropped_tensors = 0;  // of these, forgotten
  int64_t kept_bytes = 0;       // most bytes held for backward at one time, parameters and inputs not counted
  int64_t tape_bytes = 0;       // most bytes the tape itself took, beside the values it keeps
  int64_t values_verified = 0;  // rebuilt values compared with their fingerprint

  // Of a Session under a budget; the process's have none.
  int64_t plans_made = 0;                  // for all steps so far
  double planning_seconds = 0;             // spent on that while training waited
  double background_planning_seconds = 0;  // and beside it, by searches that have ended
  bool followed_plan = false;              // the latest complete step, to its end
  std::string why_no_plan;                 // if it did not: in a sentence
};

// Totals of the process since it began (kept_bytes and tape_bytes: of the largest tape). Thread-safe.
Stats stats();

}  // namespace retrace
