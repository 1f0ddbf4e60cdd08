// What is held although the policy would forget it.
#pragma once

#include "policy/hold_instead.h"
#include "policy/small_from_large.h"

namespace retrace {

class HoldIfBetter {
 public:
  bool policy_chooses = false;  // operators whose results are held, whether autograd saves them or not

  void made(int64_t bytes) { small_.made(bytes); }  // a value

  // Autograd is about to save `value`, which can be rebuilt.
  void saving(TapeView& tape, TapeView::ValueId value, bool in_session) {
    if (const TapeView::Value v = tape.value(value); v.held || v.handles > 0) return;
    using Where = HoldInstead::Where;
    if (in_session || policy_chooses)
      instead_.saving(tape, value, in_session ? Where::session : Where::bare_checkpoint);
    if (!tape.value(value).held && small_.is_worth_holding(tape, value)) tape.hold(value);
  }

 private:
  HoldInstead instead_;
  SmallFromLarge small_;
};

}  // namespace retrace
