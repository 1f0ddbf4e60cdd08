// Content that is what its operator left there, or is not.
//
// A recipe is trusted only while the content is what its operator left. So content is marked when it is made, and whoever is
// about to read or save a tensor looks: what a pointer wrote meanwhile is a value without a recipe.
#pragma once

#include <ATen/core/Tensor.h>

#include "tape/value.h"

namespace retrace {

class Tape;

// A tape's own.
struct Marking {
  bool may_forget = false;  // some scope's policy may: content is watched
  bool whole = false;       // this part of the step is new: all bytes of all content are looked at, not a sample
  bool verifies = false;    // likewise, or it follows a new plan: what is forgotten is compared when it is rebuilt
  bool lossy = false;       // a plan that held something in fewer bits was followed: nothing to compare
  uint64_t place = 0;       // of the latest look, see KnownSteps; begins anew at each operator
};

void mark(ValueMark& value, const c10::Storage& storage, bool whole);
bool is_as_marked(const ValueMark& value, const c10::Storage& storage);

// The current value of a tensor that is about to be read, and perhaps written, or saved.
ValueId look_at(Tape& tape, const at::Tensor& tensor);
// The same where it is read and nothing else: of large content only the part that is read. Who reads another part notices what was
// written there; and all of it is looked at when it is saved, or used to rebuild something.
ValueId look_at_read(Tape& tape, const at::Tensor& tensor);
// Before a backward and at the end: nobody else looks at what was saved and forgotten while the program still has it.
void look_at_saved(Tape& tape);

}  // namespace retrace
