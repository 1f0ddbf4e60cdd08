// What stays held from one backward that is recorded to the next: gradients of gradients, one after another.
//
// Each goes back some operators, and needs values from before those which are neither saved nor held: the states of a simulation
// whose forces are gradients. To make them again a rebuild goes back to the beginning of the step, and so would the next
// backward's, all the way and a little further. So what it had there stays held: the frontier of the first operator whose result
// it asked for, until a later backward leaves its own. The first one that goes back so may be the last one, and leaves nothing.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

class BetweenBackwards {
 public:
  using ValueId = TapeView::ValueId;

  void unpacked(const TapeView& tape, ValueId value);  // it has been rebuilt if need be
  void ends(TapeView& tape, bool recorded);            // what was rebuilt for it is still there

 private:
  TapeView::OpId first_ = -1;  // of the ops whose results were rebuilt and asked for
  int went_back_ = 0;          // backwards that did
  std::vector<ValueId> held_;
};

}  // namespace retrace
