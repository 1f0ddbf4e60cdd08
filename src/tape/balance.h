// Holding what autograd did not save pays only while more than that is forgotten: no policy may take more than the plain
// program. Budgets have their own ways.
#pragma once

#include <c10/core/Storage.h>

#include <unordered_map>
#include <vector>

#include "tape/op.h"

namespace retrace {

class Tape;

// A tape's own.
struct Balancing {
  std::vector<ValueId> held;                                       // since balance() last looked or still
  std::unordered_map<ValueId, std::vector<ValueId>> held_instead;  // of a value that a policy would keep
  bool keeps_any = false;                                          // that could be rebuilt
};

// Lets go of what is held in vain, as much as is too much. Called before an allocation that would raise the step's peak.
void balance(Tape& tape);
// How much more plain autograd would have live now: what is forgotten, less what is held or rebuilt and was not saved.
int64_t below_plain_bytes(Tape& tape);
// Whether to hold `value`, which autograd is about to save, instead of what the policy keeps for its sake alone and autograd
// did not save: it takes no more bytes, and nothing has to be rebuilt. If so it is held, and that is let go of.
void hold_if_no_larger(Tape& tape, ValueId value, const c10::Storage& storage);

}  // namespace retrace
