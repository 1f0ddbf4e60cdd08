// What a step decides that follows a named policy and not a plan: StepSimulation asks where the runtime's tape decides.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

class StepRules {
 public:
  virtual ~StepRules() = default;

  virtual void op_begins(OpId op) = 0;  // it has allocated nothing yet
  virtual void op_ran(OpId op) = 0;     // its results are there, and what it reads is held
  virtual void held(ValueId value) = 0;
  virtual void saving(ValueId value) = 0;  // autograd does; it is not counted as needed yet
  virtual void saved(ValueId value) = 0;
  virtual void dropped(ValueId value) = 0;  // a saved tensor; it is not counted as needed any more
  virtual void nobody_alive(ValueId value) = 0;
  virtual void backward_begins() = 0;
  // These ops, in this order, are about to be run again for `target`.
  virtual void rebuild_begins(ValueId target, const std::vector<OpId>& order) = 0;
  virtual void peak_rises(int64_t live_bytes) = 0;  // to more than was ever live, unless something is let go of now
};

}  // namespace retrace::plan
