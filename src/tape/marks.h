// Whether content is still what its operator left there.
//
// A recipe is trusted only while that is so. Content is marked when it is made, and whoever is about to read or save a
// tensor looks at it: what a pointer wrote meanwhile is a value without a recipe.
#pragma once

#include <ATen/core/Tensor.h>

#include "tape/value.h"

namespace retrace {

class Tape;

// A tape's own.
struct Marking {
  bool may_forget = false;  // some scope may forget something, so content is marked and looked at
  bool whole = false;       // this part of the step is new: marks are of all bytes, not of a sample
  bool verifies = false;    // the same, or a new plan is followed: what is rebuilt is compared with forward's
  bool lossy = false;       // a plan with a lossy way was followed in this step: nothing can be compared
  uint64_t place = 0;       // of the latest look, see KnownSteps; begins anew at each operator
};

void mark(ValueMark& value, const c10::Storage& storage, bool whole);
bool is_as_marked(const ValueMark& value, const c10::Storage& storage);

// Looks at a tensor that is about to be read, and perhaps written, or saved. Returns its current value.
ValueId look_at(Tape& tape, const at::Tensor& tensor);
// The same for a tensor that is only read: of large content only the part that is read is compared. Whoever reads the
// rest will look at that; and all of it is compared when it is saved, or used to rebuild something.
ValueId look_at_read(Tape& tape, const at::Tensor& tensor);
// Looks at what is held and saved before it is forgotten. False if it was written since it was saved: then it stays,
// and the handles stand for what was found.
bool may_be_forgotten(Tape& tape, ValueId value);
// Looks at what was saved and forgotten while the program still has it, and at what is held and will be read by an op
// that is run again. Called before a backward and at the end: nobody else looks at it then.
void look_at_saved(Tape& tape);

}  // namespace retrace
