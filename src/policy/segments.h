// How a long rebuild is cut into segments.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

// What a tape knows about it from one rebuild to the next.
struct Segmenting {
  using ValueId = TapeView::ValueId;
  bool in_segments = false;   // long rebuilds go so
  bool below_plain = false;   // if not: those that would take more than the plain program has do
  bool keeps_cuts = false;    // a policy does: every n-th, so that a rebuild crosses fewer than n
  std::vector<ValueId> cuts;  // cut vertices in order
  // Of the running backward.
  std::vector<ValueId> starts;  // what was held between segments
  int64_t segment_bytes = 0;    // of the fullest one, as predicted: what takes no more is not cut again
  int64_t saved_bytes = 0;      // when it began its first rebuild
};

struct Segmentation {
  std::vector<TapeView::ValueId>
      held;  // at the moments between segments, sorted; the rebuild keeps these of what it passes through
  TapeView::OpId until = -1;  // the last op before the last segment; none: the rebuild is one segment
};

// A rebuild that makes much that backward asks for only later would need the memory that was saved. Cut into segments it
// holds little between them; each but the last is made once more, from what is held before it, when backward reaches it.
// Where the tape has cut vertices, about the square root of those on the way are held. Where it lacks them, frontiers.
// `order`: the ops that rebuild `target`, sorted.
Segmentation choose_segments(TapeView& tape, Segmenting& segmenting, const std::vector<TapeView::OpId>& order,
                             TapeView::ValueId target);

}  // namespace retrace
