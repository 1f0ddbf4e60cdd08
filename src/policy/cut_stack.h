// Cut vertices, found while a step goes forward.
//
// The result of an op is a cut vertex if every later op that reads anything of the scope reads that result or something
// newer: the stream between two blocks, never a value inside one. A stack of candidates finds them: a new result goes
// on top, and reading an older value removes all candidates that are newer. Only a candidate that autograd saves
// counts, because backward needs it anyway; every n-th of those is held from the moment it is saved.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/simulate/rebuilding.h"
#include "policy/tape_view.h"

namespace retrace {

class CutStack {
 public:
  using ValueId = TapeView::ValueId;
  using OpId = TapeView::OpId;
  explicit CutStack(int64_t keep_period) : keep_period_(keep_period) {}

  // An op of the scope ran.
  void op_ran(TapeView& tape, const auto& op) {
    for (const auto& arg : op.args) {
      if (!arg.shape_only && arg.has_gradient) read(tape, arg.value);
    }
    if (!op.fresh.empty()) return made(tape, rebuilding::result_of(op.fresh.front()), -1);
    const auto written = std::find_if(op.args.begin(), op.args.end(), [](const auto& arg) { return arg.becomes >= 0; });
    if (written != op.args.end()) made(tape, written->becomes, written->value);
  }

  // Autograd saves `value`.
  void saved(TapeView& tape, ValueId value);

  // The candidates that count, oldest first. A step may have thousands of backwards: what they have done with goes.
  std::vector<ValueId> cuts(const TapeView& tape);

 private:
  // A value that carries gradients is read. Values outside the differentiable stream (masks, indices) do not count:
  // they bridge segments without making them depend on each other's activations.
  void read(TapeView& tape, ValueId value);
  // `value` is an op's first result. If it overwrote `replaced`, that one's place is taken.
  void made(TapeView& tape, ValueId value, ValueId replaced);
  void pop(TapeView& tape);

  struct Candidate {
    ValueId value;
    OpId recorded_at;
    int64_t rank = 0;   // among the candidates that are saved; 0: not saved
    bool held = false;  // because it is a cut vertex
  };
  std::vector<Candidate> stack_;
  int64_t keep_period_;
};

}  // namespace retrace
