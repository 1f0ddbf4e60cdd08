// Content that is overwritten while something saved depends on it.
#pragma once

#include "tape/tape.h"

namespace retrace {

// Every event begins here. Learns the versions that in-place operators left, and tidies up after a backward.
void begin_event(Tape& tape);

// After a write that raises no version counter (BatchNorm's statistics, tensor.data()) autograd goes on with the new
// content of a saved tensor. So do its handles.
void handles_follow(Tape& tape, const Tape::Written& written);

// `root` is about to be overwritten and is not copied: whatever is saved and needs it is rebuilt now and held.
void secure_dependents(Tape& tape, ValueId root);
// The bytes that would then be held. What somebody has now counts only in a step under a budget, where it may be let go
// of later.
int64_t bytes_to_secure(Tape& tape, ValueId root);

}  // namespace retrace
