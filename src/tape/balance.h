// policy/balance.h, policy/hold_instead.h and policy/small_from_large.h for a tape.
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
  std::vector<ValueId> held;  // values that are held, and some that were since balance() last looked
  HoldInstead instead;
  SmallFromLarge small;
  bool policy_chooses = false;  // operators whose results are held, whether autograd saves them or not
};

void balance(Tape& tape);  // before an allocation that would raise the step's peak
int64_t below_plain_bytes(Tape& tape);
void look_outside(Tape& tape);  // when a backward begins
// Autograd is about to save `value`, and the policy would forget it. Holds it if policy/small_from_large.h or, in a
// session's step, policy/hold_instead.h says so.
void hold_if_better(Tape& tape, ValueId value, const c10::Storage& storage);

}  // namespace retrace
