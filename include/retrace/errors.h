// What Retrace throws. Four kinds, so that a caller can tell whose turn it is to act.
// A message reads: [function] op 'aten::x': what, consequence, what to do.
//
// Errors that LibTorch would raise without Retrace (an in-place change of a saved tensor, out of memory, whatever the
// model throws) are LibTorch's own types, unchanged.
#pragma once

#include <retrace/cxx20.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace retrace {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller's mistake: an unknown operator name, a step inside a step, an input changed before backward.
struct UsageError : Error {
  using Error::Error;
};

// Something Retrace cannot do, and could not avoid by keeping the tensor instead.
struct NotSupported : Error {
  using Error::Error;
};

// No plan fits the budget. `needs` is what fills smallest_bytes at a step's fullest moment: its parts sum up to it.
struct InfeasibleBudget : Error {
  struct Needs {
    int64_t weight_bytes = 0;
    int64_t gradient_bytes = 0;
    int64_t before_bytes = 0;  // what else was live before the step: optimizer state, data
    int64_t step_bytes = 0;    // what the step itself needs on top
  };
  InfeasibleBudget(const std::string& what, int64_t smallest) : Error(what), smallest_bytes(smallest) {}
  InfeasibleBudget(const std::string& what, int64_t smallest, const Needs& filled)
      : Error(what), smallest_bytes(smallest), needs(filled) {}
  int64_t smallest_bytes;  // the smallest budget that would do, as far as the step has shown
  Needs needs;
};

// Retrace's own bug, or an operator that does not compute the same thing twice: a rebuilt value differs.
struct InternalError : Error {
  using Error::Error;
};

}  // namespace retrace
