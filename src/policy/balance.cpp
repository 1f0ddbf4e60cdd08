#include "policy/balance.h"

#include <algorithm>
#include <utility>

#include "policy/hold_instead.h"

namespace retrace {
namespace {

using ValueId = TapeView::ValueId;

// What plain autograd would have and we do not.
int64_t forgotten_bytes(TapeView& tape) {
  int64_t bytes = 0;
  tape.begin_walk();
  for (const ValueId id : tape.saved()) {
    const TapeView::Value v = tape.value(id);
    if (v.held || v.rebuilt || tape.was_at_value(id)) continue;
    if (!tape.is_elsewhere(id)) bytes += v.bytes;
  }
  return bytes;
}

bool is_held_in_vain(const TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  return v.held && v.handles == 0 && v.holders <= 1 && v.uses == 0 && !tape.is_shared(id);
}

std::vector<ValueId> shared_of(const TapeView& tape, const std::vector<ValueId>& held) {
  std::vector<ValueId> shared;
  for (const ValueId id : held) {
    const TapeView::Value v = tape.value(id);
    if (v.held && v.handles == 0 && !v.external && tape.is_shared(id)) shared.push_back(id);
  }
  return shared;
}

bool is_needed_now(const TapeView& tape, const TapeView::Value& v) {
  return tape.backward_at() >= 0 && v.last_read_by >= tape.backward_at();
}

// The largest first. A value that can be rebuilt only costs time if it is missing; a root cannot be rebuilt, so roots
// stay. What backward needs from now on would come back at once, so that stays too. Of equally large values, backward
// needs the first last.
std::vector<std::pair<int64_t, ValueId>> largest_that_may_go(const TapeView& tape, const std::vector<ValueId>& held) {
  std::vector<std::pair<int64_t, ValueId>> may_go;
  for (const ValueId id : held) {
    const TapeView::Value v = tape.value(id);
    if (v.handles > 0 || v.is_root() || v.is_copy || is_needed_now(tape, v)) continue;
    may_go.emplace_back(-v.bytes, id);
  }
  std::sort(may_go.begin(), may_go.end());
  return may_go;
}

}  // namespace

int64_t below_plain_bytes(TapeView& tape) {
  int64_t bytes = forgotten_bytes(tape);
  for (ValueId id = tape.present_from(0); id >= 0; id = tape.present_from(id + 1)) {
    const TapeView::Value v = tape.value(id);
    if (v.handles > 0 || v.holders > 1) continue;
    if (!tape.is_shared(id)) bytes -= v.bytes;
  }
  return bytes;
}

Balance balance(TapeView& tape, std::vector<ValueId>& all_held) {
  int64_t spare = below_plain_bytes(tape);
  std::erase_if(all_held, [&](ValueId id) { return !tape.value(id).held; });
  if (spare < 0 && tape.may_have_idle() && tape.let_go_idle()) return balance(tape, all_held);
  if (spare < 0) {
    for (const auto& [minus_bytes, id] : largest_that_may_go(tape, all_held)) {
      if (spare >= 0) break;
      if (!is_held_in_vain(tape, id)) continue;
      spare -= minus_bytes;
      tape.give_up(id);
    }
  }
  if (spare < 0) {
    hold_instead_of_roots(tape);
    tape.let_go_roots();
  }
  return {std::max<int64_t>(spare, 0), shared_of(tape, all_held)};
}

void SinceBalance::watch(ValueId id, int64_t bytes) {
  worse_bytes_ += bytes;
  watched_.push_back(id);
}

// Its content was there, so if a handle stands for it, it was not forgotten.
void SinceBalance::held(const TapeView& tape, ValueId id) {
  held_.push_back(id);
  const TapeView::Value v = tape.value(id);
  if (v.handles == 0) watch(id, v.bytes);
}

void SinceBalance::rebuilt(const TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  v.handles == 0 ? watch(id, v.bytes) : static_cast<void>(worse_bytes_ += v.bytes);
}

void SinceBalance::dropped(const TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  if (v.handles > 0) return;
  if (v.held || v.rebuilt) {
    watch(id, v.bytes);
  } else if (!tape.is_elsewhere(id)) {
    worse_bytes_ += v.bytes;
  }
}

void SinceBalance::looked(const TapeView& tape, Balance found) {
  slack_bytes_ = found.slack_bytes;
  worse_bytes_ = 0;
  for (const ValueId id : found.shared) worse_bytes_ += tape.value(id).bytes;
  watched_ = std::move(found.shared);
}

void SinceBalance::look_outside(const TapeView& tape) {
  std::erase_if(outside_, [&](ValueId id) {
    const TapeView::Value v = tape.value(id);
    if (v.held && tape.is_shared(id)) return false;
    if (v.held) worse_bytes_ += v.bytes;
    return true;
  });
}

// What has been saved by now, or let go of, makes nothing worse; nor does what the program has, as long as it has it.
// What is held in vain does, and need not be looked at again.
bool SinceBalance::is_out_of_balance(const TapeView& tape) {
  look_outside(tape);
  int64_t shared_bytes = 0;
  std::erase_if(watched_, [&](ValueId id) {
    const TapeView::Value v = tape.value(id);
    const bool is_there = (v.held || v.rebuilt) && v.handles == 0;
    const bool is_shared = is_there && tape.is_shared(id);
    if (is_shared && !v.external) {
      shared_bytes += v.bytes;
      return false;
    }
    if (is_shared) outside_.push_back(id);
    if (is_shared || !is_there) worse_bytes_ -= v.bytes;
    return true;
  });
  return worse_bytes_ - shared_bytes > slack_bytes_;
}

}  // namespace retrace
