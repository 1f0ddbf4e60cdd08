// Holding what autograd did not save pays only while more than that is forgotten: no policy may take more than the plain
// program. Budgets have their own ways.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

struct Balance {
  int64_t slack_bytes = 0;  // that could be held beyond what is, before it would be too much again
  // Held, not saved, and in the program's hands as well: it is held in vain as soon as the program lets go of it.
  int64_t shared_bytes = 0;
};

// Lets go of what is held in vain, as much as is too much. `held`: what is, or was since the last look; what is no longer, is
// removed.
Balance balance(TapeView& tape, std::vector<TapeView::ValueId>& held);

// How much more plain autograd would have live now: what is forgotten, less what is held or rebuilt and was not saved.
int64_t below_plain_bytes(TapeView& tape);

}  // namespace retrace
