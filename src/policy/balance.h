// Holding what autograd did not save pays only while more than that is forgotten: no policy may take more than the plain
// program. Budgets have their own ways.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "policy/tape_view.h"

namespace retrace {

struct Balance {
  int64_t slack_bytes = 0;  // that could be held beyond what is, before it would be too much again
  // Held, not saved, and in the program's hands as well: it is held in vain as soon as the program lets go of it.
  std::vector<TapeView::ValueId> shared;
};

// Lets go of what is held in vain, as much as is too much. `held`: what is, or was since the last look; what is no longer, is
// removed.
Balance balance(TapeView& tape, std::vector<TapeView::ValueId>& held);

// How much more plain autograd would have live now: what is forgotten, less what is held or rebuilt and was not saved.
int64_t below_plain_bytes(TapeView& tape);

// Whether balance() might find something. It walks over the whole tape, and what it guarantees is asked for at any allocation.
class SinceBalance {
 public:
  using ValueId = TapeView::ValueId;

  // What has just happened to a value: a handle that stood for it has been dropped, ...
  void held(const TapeView& tape, ValueId value);
  void rebuilt(const TapeView& tape, ValueId value);
  void dropped(const TapeView& tape, ValueId value);
  void looked(const TapeView& tape, Balance found);

  bool may_be_out_of_balance() const { return worse_bytes_ > slack_bytes_; }  // needs no lock
  bool is_out_of_balance(const TapeView& tape);

 private:
  void watch(ValueId value, int64_t bytes);

  std::atomic<int64_t> worse_bytes_{0};  // at most so much worse than it was when balance() last looked
  std::atomic<int64_t> slack_bytes_{0};  // then
  std::vector<ValueId> watched_;         // counted there: the tape had them, and no handle stood for them
  std::vector<ValueId> outside_;         // came from outside: not counted while the program has them
};

}  // namespace retrace
