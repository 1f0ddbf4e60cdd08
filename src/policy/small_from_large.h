// What is not worth forgetting: a value whose rebuilding needs a value that is far larger, and larger than all that was
// saved so far. To hold it takes no more than the plain program does; to rebuild it takes more, beside the gradients,
// and time: what has been forgotten does not make up for it. All that is held for this reason is small: a part of one
// value that the plain program has had, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/tape_view.h"

namespace retrace {

class SmallFromLarge {
 public:
  using ValueId = TapeView::ValueId;

  void made(int64_t bytes) { largest_bytes_ = std::max(largest_bytes_, bytes); }  // a value

  // Autograd is about to save `value`, nothing holds it and it can be rebuilt. Whether to hold it; if so, it is held.
  bool is_worth_holding(TapeView& tape, ValueId value);

 private:
  int64_t largest_bytes_ = 0;  // of all values so far
  int64_t saved_bytes_ = 0;    // so far: what backward has asked for by now is not subtracted
  int64_t held_bytes_ = 0;     // of these, for this reason
};

}  // namespace retrace
