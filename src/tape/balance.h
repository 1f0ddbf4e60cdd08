// policy/balance.h and policy/hold_instead.h for a tape.
#pragma once

#include <c10/core/Storage.h>

#include <vector>

#include "policy/hold_instead.h"
#include "policy/small_from_large.h"
#include "tape/op.h"

namespace retrace {

class Tape;

// A tape's own.
struct Balancing {
  std::vector<ValueId> held;  // since balance() last looked or still
  HoldInstead instead;        // of what a policy would keep
  SmallFromLarge small;
};

void balance(Tape& tape);  // before an allocation that would raise the step's peak
int64_t below_plain_bytes(Tape& tape);
// Autograd is about to save `value`, and the policy would forget it: see policy/small_from_large.h and, in a session's step,
// policy/hold_instead.h.
void hold_if_better(Tape& tape, ValueId value, const c10::Storage& storage);

}  // namespace retrace
