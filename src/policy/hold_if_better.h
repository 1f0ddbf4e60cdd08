// What is held although the policy would forget it.
#pragma once

#include "policy/hold_instead.h"
#include "policy/small_from_large.h"

namespace retrace {

class HoldIfBetter {
 public:
  void made(int64_t bytes) { small_.made(bytes); }  // a value

  // Autograd is about to save `value`, which can be rebuilt.
  void saving(TapeView& tape, TapeView::ValueId value, bool in_session) {
    if (const TapeView::Value v = tape.value(value); v.held || v.handles > 0) return;
    if (in_session) instead_.saving(tape, value);
    if (!tape.value(value).held && small_.is_worth_holding(tape, value)) tape.hold(value);
  }

 private:
  HoldInstead instead_;
  SmallFromLarge small_;
};

}  // namespace retrace
