// What autograd saves is held instead of what it would be rebuilt from (a result that a policy keeps, or roots), if it
// is no larger.
#pragma once

#include <unordered_map>
#include <vector>

#include "policy/tape_view.h"

namespace retrace {

class HoldInstead {
 public:
  using ValueId = TapeView::ValueId;

  // In a bare checkpoint what a policy keeps stays kept, unless it is larger: then it takes more than the plain program
  // has. The roots there are the arguments, which the caller may have.
  enum class Where { session, bare_checkpoint };

  // Autograd is about to save `value` for the first time. Compares it with what the tape holds only to rebuild it, and
  // autograd did not save. If it takes no more bytes than that, it is held, and what the policy kept for it is let go
  // of; roots are swept once memory runs short. Nothing has to be rebuilt then.
  void saving(TapeView& tape, ValueId value, Where where);

 private:
  std::unordered_map<ValueId, std::vector<ValueId>> held_instead_;  // by the value that a policy would keep
};

// For when more is live than the plain program has. A saved value may have been forgotten because the program still has
// it (a weight that was made in this step), or been rebuilt for a node of a retained graph, which has it now. It is held
// if that makes roots needless that are nearly as large.
void hold_instead_of_roots(TapeView& tape);

}  // namespace retrace
