// What is held instead of what it would be rebuilt from, a result that a policy keeps or roots: what autograd saves, if it is no
// larger.
#pragma once

#include <unordered_map>
#include <vector>

#include "policy/tape_view.h"

namespace retrace {

class HoldInstead {
 public:
  using ValueId = TapeView::ValueId;

  // Whether to hold `value`, which autograd is about to save for the first time, instead of what the tape has for its sake alone
  // and autograd did not save: it takes no more bytes, and nothing has to be rebuilt. If so it is held, and what the policy keeps
  // is let go of; roots are swept once memory runs short.
  void saving(TapeView& tape, ValueId value);

 private:
  std::unordered_map<ValueId, std::vector<ValueId>> held_instead_;  // of a value that a policy would keep
};

// More is live than the plain program has. What is saved and was forgotten, though the program has it too (a weight made in this
// step), is held where that makes roots needless that are nearly as large.
void hold_instead_of_roots(TapeView& tape);

}  // namespace retrace
