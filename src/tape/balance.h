// policy/balance.h and policy/hold_if_better.h for a tape.
#pragma once

#include <c10/core/Storage.h>

#include "tape/op.h"

namespace retrace {

class Tape;

void balance(Tape& tape);  // before an allocation that would raise the step's peak
int64_t below_plain_bytes(Tape& tape);
void look_outside(Tape& tape);  // when a backward begins
// Autograd is about to save `value`, and the policy would forget it.
void hold_if_better(Tape& tape, ValueId value, const c10::Storage& storage);

}  // namespace retrace
