// How a long rebuild is cut into segments.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

// What a tape remembers about segments from one rebuild to the next.
struct Segmenting {
  using ValueId = TapeView::ValueId;
  bool in_segments = false;   // long rebuilds go in segments
  bool below_plain = false;   // rebuilds that would take more than the plain program has go in segments
  bool keeps_cuts = false;    // the policy keeps every n-th cut vertex, so a rebuild crosses fewer than n
  std::vector<ValueId> cuts;  // cut vertices in order
  // Of the running backward.
  std::vector<ValueId> starts;  // what was held between segments
  int64_t segment_bytes = 0;    // that the fullest segment takes, as predicted: what takes no more is not cut again
  int64_t saved_bytes = 0;      // of all that was saved when this backward began its first rebuild
};

struct Segmentation {
  // Values at the moments between segments, sorted: of what is made up to op `until`, only these stay.
  std::vector<TapeView::ValueId> held;
  TapeView::OpId until = -1;  // the last op before the last segment; -1: the rebuild is one segment
};

// A rebuild makes much that backward asks for only later, which would take the memory that was saved. Cut into
// segments, it holds little between them; each segment but the last is made once more, from what is held before it,
// when backward reaches it. Where the tape has cut vertices, about the square root of those on the way are held. Where
// it lacks them, frontiers are. `order`: the ops that rebuild `target`, sorted.
Segmentation choose_segments(TapeView& tape, Segmenting& segmenting, const std::vector<TapeView::OpId>& order,
                             TapeView::ValueId target);

}  // namespace retrace
