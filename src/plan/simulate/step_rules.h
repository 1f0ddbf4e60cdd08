// What is decided by a step that follows a named policy and not a plan. StepSimulation calls these where the runtime's
// tape decides.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

class StepRules {
 public:
  virtual ~StepRules() = default;

  virtual void op_begins(OpId op) = 0;  // before it has allocated anything
  virtual void op_ran(OpId op) = 0;     // when its results are there and, if it can be run again, what it reads is held
  virtual void held(ValueId value) = 0;
  virtual void saving(ValueId value) = 0;  // autograd is; the value is not counted as needed yet
  virtual void saved(ValueId value) = 0;
  virtual void followed(ValueId value) = 0;         // a saved tensor was written and stands for this value now
  virtual void dropped(ValueId value) = 0;          // a saved tensor was; it is not counted as needed any more
  virtual void in_hand(ValueId value, int by) = 0;  // backward has unpacked one more (1) or let go of one (-1)
  virtual void nobody_alive(ValueId value) = 0;
  virtual void unpacking(HandleId handle) = 0;
  // These ops, in this order, are about to be run again for `target`.
  virtual void rebuild_begins(ValueId target, const std::vector<OpId>& order) = 0;
  virtual void rebuilt(ValueId value) = 0;
  virtual void rebuild_ended() = 0;
  virtual void unpacked(ValueId value) = 0;       // and rebuilt, if need be
  virtual void backward_ends(bool recorded) = 0;  // what was rebuilt for it is still there
  // `more_bytes` more than are live now would be a new peak, unless something is let go of.
  virtual void peak_rises(int64_t more_bytes) = 0;
};

}  // namespace retrace::plan
