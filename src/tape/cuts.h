// Cut vertices, found while recording.
//
// After an op, its result is a cut vertex if every later op that reads anything of the scope reads it or something newer:
// the stream between two blocks, never the inside of one. A stack of candidates suffices: a new result goes on top, a read
// of an older value removes all candidates newer than it. Only a candidate that autograd saves counts, for only those
// backward needs anyway; every n-th of them is held from the moment it is saved.
#pragma once

#include <vector>

#include "tape/tape.h"

namespace retrace {

class CutTracker {
 public:
  CutTracker(int64_t keep_period, StepCounters counters) : keep_period_(keep_period), counters_(std::move(counters)) {}

  // A value that carries gradients is read. Values outside the differentiable stream (masks, indices) do not count: they
  // bridge segments without making them depend on each other's activations.
  void read(Tape& tape, ValueId value);

  // An op of the scope made `value`, its first result. If it overwrote `replaced`, that one's place is taken.
  void made(Tape& tape, ValueId value, ValueId replaced);

  // Autograd saves `value`, which is in `storage` now.
  void saved(Tape& tape, ValueId value, const c10::Storage& storage);

  std::vector<ValueId> cuts() const;  // those that count, oldest first

 private:
  void pop(Tape& tape);

  struct Candidate {
    ValueId value;
    OpId recorded_at;
    int64_t rank = 0;  // among those that count; 0: not saved, so not among them
    bool held = false;
  };
  std::vector<Candidate> stack_;
  int64_t keep_period_;
  StepCounters counters_;
};

}  // namespace retrace
