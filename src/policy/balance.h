// Holding what autograd did not save pays only while more than that is forgotten: under no policy may a step take more
// than the plain program. Budgets have rules of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "policy/tape_view.h"

namespace retrace {

struct Balance {
  int64_t slack_bytes = 0;  // how much more could be held before it would be too much
  // What is held and was not saved, and the program has too: held in vain as soon as the program lets go of it.
  std::vector<TapeView::ValueId> shared;
};

// Lets go of what is held in vain, until it is no longer too much. `held`: values that are held, and some that were
// since the last call; the latter are removed.
Balance balance(TapeView& tape, std::vector<TapeView::ValueId>& held);

// How many more bytes plain autograd would have live now: what is forgotten, less what is held or rebuilt and was not
// saved.
int64_t below_plain_bytes(TapeView& tape);

// While an operator is rebuilt, what it takes would raise the peak. That comes on top of what the plain program has
// now: calls raise(what that comes to), and lets go of what nothing needs as long as memory is short. `live_bytes`:
// without what the operator has in passing.
void let_go_for_rebuild(TapeView& tape, int64_t live_bytes, auto raise, auto is_short) {
  raise(live_bytes + below_plain_bytes(tape));
  if (is_short()) tape.let_go_idle();
  if (is_short()) tape.let_go_roots();
}

// Whether balance() might find something. balance() walks over the whole tape, and any allocation may need it.
class SinceBalance {
 public:
  using ValueId = TapeView::ValueId;

  // What has just happened to a value: it was held; rebuilt; or a handle that stood for it was dropped.
  void held(const TapeView& tape, ValueId value);
  void rebuilt(const TapeView& tape, ValueId value);
  void dropped(const TapeView& tape, ValueId value);
  void look(TapeView& tape) { looked(tape, balance(tape, held_)); }
  void looked(const TapeView& tape, Balance found);  // balance() found this
  // A backward begins. What came from outside, and the program has let go of since anybody looked, makes it worse.
  void look_outside(const TapeView& tape);

  bool may_be_out_of_balance() const { return worse_bytes_ > slack_bytes_; }  // needs no lock
  bool is_out_of_balance(const TapeView& tape);

 private:
  void watch(ValueId value, int64_t bytes);

  std::vector<ValueId> held_;            // values that are held, and some that were since balance() last looked
  std::atomic<int64_t> worse_bytes_{0};  // since balance() last looked it is worse by at most so much
  std::atomic<int64_t> slack_bytes_{0};  // that balance() found when it last looked
  std::vector<ValueId> watched_;         // values counted in worse_bytes_ that no handle stood for
  std::vector<ValueId> outside_;         // from outside the step: not counted while the program has them
};

}  // namespace retrace
