// Whether it pays to forget a value: to rebuild it may for a moment take more than all that was forgotten before it, and then
// the plain program would need less.
//
// Backward asks for the newest first. When it asks for a value, what was forgotten before that value still is, and what came
// after it is gone: a rebuild that takes no more bytes than the former, and its own, stays below the plain program.
#pragma once

#include "policy/tape_view.h"

namespace retrace {

class WorthForgetting {
 public:
  using ValueId = TapeView::ValueId;

  // Of a value that autograd is about to save for the first time, and that would be forgotten. What it says yes to counts as
  // forgotten from then on.
  bool saving(TapeView& tape, ValueId value);

 private:
  int64_t forgotten_bytes_ = 0;
};

}  // namespace retrace
