// A tape as it is seen by the rules that the runtime and predictions share: cut vertices, what is held instead of
// something else, where a long rebuild is cut. The runtime's is src/tape/runtime_view.h, a predicted step's is
// src/policy/predicted_step.h.
#pragma once

#include <cstdint>
#include <vector>

namespace retrace {

class TapeView {
 public:
  using ValueId = int32_t;
  using OpId = int32_t;

  struct Value {
    OpId producer = -1;     // none: a root
    OpId recorded_at = -1;  // orders values in time, roots included
    OpId last_read_by = -1;
    int64_t bytes = 0;
    int32_t handles = 0;             // that stand for it
    int32_t alive = 0, pending = 0;  // see plan/simulate/demand.h
    bool external = false, has_gradient = false;
    bool wanted = false;  // by the policy, whatever else is decided
    bool held = false, rebuilt = false;
    bool is_copy = false;  // what is held is a copy, made before the value was overwritten
    int32_t holders = 0;   // handles that keep it, and the tape if it holds it
    int32_t uses = 0;      // by a rebuild that is going on

    bool is_root() const { return producer < 0; }
    bool is_source() const { return is_root() || held; }
  };
  struct Arg {
    ValueId value = -1, becomes = -1;
    bool shape_only = false;
    int64_t bytes = 0;  // of the view that was read
  };

  virtual ~TapeView() = default;
  virtual Value value(ValueId id) const = 0;

  virtual ValueId present_from(ValueId id) = 0;     // the first at or after `id` that is held or rebuilt; -1: none
  virtual std::vector<ValueId> saved() const = 0;   // what handles stand for, one by one
  virtual bool is_shared(ValueId id) const = 0;     // of one that is held or rebuilt: not only the tape has it
  virtual bool is_elsewhere(ValueId id) const = 0;  // of one that is neither: somebody else has it

  virtual OpId next_op() const = 0;
  // How many ops had been recorded when the tensor was saved that backward asked for last; -1 in forward.
  virtual OpId backward_at() const = 0;
  // Of the ops that are left, the first at or after this one, and the last before it; -1: none.
  virtual OpId op_from(OpId id) const = 0;
  virtual OpId op_before(OpId id) const = 0;
  virtual bool is_alive(OpId id) const = 0;
  virtual bool is_pending(OpId id) const = 0;
  virtual std::vector<Arg> args(OpId id) const = 0;
  virtual std::vector<ValueId> results(OpId id) const = 0;  // fresh ones first

  // Whether somebody has been here since the last begin_walk().
  virtual void begin_walk() = 0;
  virtual bool was_at_op(OpId id) = 0;
  virtual bool was_at_value(ValueId id) = 0;

  virtual void hold(ValueId id) = 0;          // what is being saved
  virtual bool hold_at_hand(ValueId id) = 0;  // what is rebuilt, or the program has; false if it is neither
  virtual bool hold_given(ValueId id) = 0;    // what backward was given and still has; false if it has it no more
  virtual void let_go(ValueId id) = 0;
  virtual void give_up(ValueId id) = 0;  // let go of, and the policy no longer wants it
  // See tape/sweep.h.
  virtual bool may_have_idle() const = 0;
  virtual bool let_go_idle() = 0;
  virtual void let_go_roots() = 0;
};

}  // namespace retrace
