#include "policy/hold_instead.h"

namespace retrace {
namespace {

constexpr int kMostAncestors = 32;  // to look at; what a policy keeps is near

// What a rebuild of `id` would begin from, as far as it is near.
std::vector<TapeView::ValueId> nearest_sources(TapeView& tape, TapeView::ValueId id) {
  tape.begin_walk();
  std::vector<TapeView::ValueId> sources, work{id};
  int looked = 0;
  while (!work.empty() && looked++ < kMostAncestors) {
    const TapeView::OpId producer = tape.value(work.back()).producer;
    work.pop_back();
    if (tape.was_at_op(producer)) continue;
    for (const TapeView::Arg& arg : tape.args(producer)) {
      if (arg.shape_only || tape.was_at_value(arg.value)) continue;
      (tape.value(arg.value).is_source() ? sources : work).push_back(arg.value);
    }
  }
  return sources;
}

// The program has let go of it. Once nothing forgotten needs it, it is swept when memory runs short.
bool only_tape_has(const TapeView& tape, TapeView::ValueId root) {
  const TapeView::Value v = tape.value(root);
  return v.holders <= 1 && !v.is_copy && !tape.is_shared(root);
}

// The program may let go of a value before long, and has let go of the roots already.
constexpr int64_t kNearly = 2;  // times as large

}  // namespace

void hold_instead_of_roots(TapeView& tape) {
  for (const TapeView::ValueId id : tape.saved()) {
    const TapeView::Value v = tape.value(id);
    if (v.is_source() || v.rebuilt || !tape.is_elsewhere(id)) continue;
    std::vector<TapeView::ValueId> roots = nearest_sources(tape, id);
    std::erase_if(roots, [&](TapeView::ValueId r) {
      return !tape.value(r).is_root() || !tape.value(r).held || !only_tape_has(tape, r);
    });
    if (roots.empty() || !(tape.hold_at_hand(id) || tape.hold_given(id))) continue;
    int64_t needless_bytes = 0;
    bool all_there = true;  // in backward a root goes as soon as nothing needs it: then `id` can only be held
    for (const TapeView::ValueId root : roots) {
      if (tape.value(root).alive == 0) needless_bytes += tape.value(root).bytes;
      all_there &= tape.value(root).held;
    }
    if (all_there && kNearly * needless_bytes < v.bytes) tape.give_up(id);
  }
}

void HoldInstead::saving(TapeView& tape, ValueId id, Where where) {
  const std::vector<ValueId> sources = nearest_sources(tape, id);
  const bool in_session = where == Where::session;
  int64_t spent = 0, gained = tape.value(id).bytes;
  std::vector<ValueId> kept, instead;
  for (const ValueId source : sources) {
    const TapeView::Value v = tape.value(source);
    if (v.handles > 0 || v.alive > 0) continue;
    if (v.is_root()) {
      spent += in_session && only_tape_has(tape, source) ? v.bytes : 0;
      continue;
    }
    if (v.external) continue;
    kept.push_back(source);
    spent += v.bytes;
    for (const ValueId other : held_instead_[source]) {
      const TapeView::Value o = tape.value(other);
      if (!o.held || o.handles == 0) continue;
      instead.push_back(other);
      gained += o.bytes;
    }
  }
  if (spent == 0) return;
  if (spent > gained || (in_session && spent == gained)) {
    tape.hold(id);
    if (sources.size() == 1 && !kept.empty()) held_instead_[kept.front()].push_back(id);
    for (const ValueId source : kept) tape.let_go(source);
  } else {
    for (const ValueId other : instead) tape.let_go(other);
  }
}

}  // namespace retrace
