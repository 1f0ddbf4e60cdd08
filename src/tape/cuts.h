// Cut vertices, found while recording.
//
// After an op, its result is a cut vertex if every later op that reads anything of the scope reads it or something newer:
// the stream between two blocks, never the inside of one. A stack of candidates suffices. A new result goes on top; a read
// of an older value removes all candidates newer than it. Positions below the top never change, so "every n-th" is decided
// when a candidate is pushed.
#pragma once

#include <vector>

#include "tape/tape.h"

namespace retrace {

class CutTracker {
 public:
  explicit CutTracker(int64_t keep_period) : keep_period_(keep_period) {}

  // A value that carries gradients is read. Values outside the differentiable stream (masks, indices) do not count: they
  // bridge segments without making them depend on each other's activations.
  void read(Tape& tape, ValueId value);

  // An op of the scope made `value`, its first result, in a storage that is `storage`. If it overwrote `replaced`, that
  // one's place is taken. Held only if `may_hold`.
  void made(Tape& tape, ValueId value, const c10::Storage& storage, ValueId replaced, bool may_hold);

  std::vector<ValueId> cuts() const;

 private:
  void pop(Tape& tape);

  struct Candidate {
    ValueId value;
    OpId born;
    bool held;
  };
  std::vector<Candidate> stack_;
  int64_t keep_period_;
};

}  // namespace retrace
