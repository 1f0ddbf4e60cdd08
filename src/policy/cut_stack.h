// Cut vertices, found while a step goes forward.
//
// After an op, its result is a cut vertex if every later op that reads anything of the scope reads it or something newer:
// the stream between two blocks, never the inside of one. A stack of candidates suffices: a new result goes on top, a read
// of an older value removes all candidates newer than it. Only a candidate that autograd saves counts, for only those
// backward needs anyway; every n-th of them is held from the moment it is saved.
#pragma once

#include <vector>

#include "policy/tape_view.h"

namespace retrace {

class CutStack {
 public:
  using ValueId = TapeView::ValueId;
  using OpId = TapeView::OpId;
  explicit CutStack(int64_t keep_period) : keep_period_(keep_period) {}

  // A value that carries gradients is read. Values outside the differentiable stream (masks, indices) do not count: they
  // bridge segments without making them depend on each other's activations.
  void read(TapeView& tape, ValueId value);

  // An op of the scope made `value`, its first result. If it overwrote `replaced`, that one's place is taken.
  void made(TapeView& tape, ValueId value, ValueId replaced);

  // Autograd saves `value`.
  void saved(TapeView& tape, ValueId value);

  std::vector<ValueId> cuts() const;  // those that count, oldest first

 private:
  void pop(TapeView& tape);

  struct Candidate {
    ValueId value;
    OpId recorded_at;
    int64_t rank = 0;   // among those that count; 0: not saved, so not among them
    bool held = false;  // for this reason
  };
  std::vector<Candidate> stack_;
  int64_t keep_period_;
};

}  // namespace retrace
