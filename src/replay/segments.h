// How a long rebuild is cut into segments.
#pragma once

#include <vector>

#include "tape/tape.h"

namespace retrace {

struct Segmentation {
  std::vector<ValueId>
      held;            // at the moments between segments, sorted; the rebuild keeps these of what it passes through
  OpId until = kNone;  // the last op before the last segment; none: the rebuild is one segment
};

// A rebuild that makes much that backward asks for only later would need the memory that was saved. Cut into segments it
// holds little between them; each but the last is made once more, from what is held before it, when backward reaches it.
// Where the tape has cut vertices, about the square root of those on the way are held. Where it lacks them, frontiers.
// `order`: the ops that rebuild `target`, visited by the running replay.
Segmentation choose_segments(Tape& tape, const std::vector<OpId>& order, ValueId target);

}  // namespace retrace
