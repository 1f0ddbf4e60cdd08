// Content that is overwritten while something saved depends on it.
#pragma once

#include "tape/tape.h"

namespace retrace {

// Every event begins here: learns the versions in-place operators left, and tidies up after a backward.
void begin_event(Tape& tape);

// A write that does not count as one (BatchNorm's statistics, tensor.data()) changes a saved tensor, and autograd goes on
// with the new content. So do we.
void handles_follow(Tape& tape, const Tape::Written& written);

// `root` is about to be overwritten and is not copied: whatever needs it is rebuilt now and held.
void secure_dependents(Tape& tape, ValueId root);
// Bytes that would then be held. Of what somebody has now, only in a step under a budget, where it may be let go of later.
int64_t bytes_to_secure(Tape& tape, ValueId root);

}  // namespace retrace
