// What stays held from one backward that is recorded to the next: gradients of gradients, one after another.
//
// Each such backward goes back some operators, and needs values from before those that are neither saved nor held: the
// states of a simulation whose forces are gradients. To make these again, a rebuild goes back to the beginning of the
// step; and the next backward's rebuild would go all that way and a little further. So what a backward had rebuilt
// there stays held: the frontier of the first operator whose result it asked for, until a later backward leaves its
// own. The first backward that goes back so may be the only one, so it leaves nothing.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

class BetweenBackwards {
 public:
  using ValueId = TapeView::ValueId;

  void unpacked(const TapeView& tape, ValueId value);  // after it was rebuilt, if need be
  void ends(TapeView& tape, bool recorded);            // a backward, before what it rebuilt is let go of

 private:
  TapeView::OpId first_ = -1;  // the first op whose result was rebuilt and asked for
  int went_back_ = 0;          // how many backwards went back so
  std::vector<ValueId> held_;  // left by the latest of them
};

}  // namespace retrace
