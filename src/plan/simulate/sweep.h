// What a tape lets go of when it looks at all it has. The runtime's tape, a predicted step and the simulator share
// these rules.
//
// A swept tape has value(id) and op(id), as for demand.h; recorded(op), what it reads and makes; and, by ids from 0:
// op_count(), op_from() and op_before() (of those that are left, see IdSet), drop_op(); value_count(), present_from()
// (of those that are held or rebuilt), bytes(), is_held(), is_copy() and is_shared() (of one that is held),
// is_reached() (see demand.h), is_living() (somebody has its storage, with this content), may_be_saved() (a handle or
// somebody has it), has_handle(), was_weighed() (from now on), let_go(); and marks(), a pair of Marks for one sweep at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/graph/id_set.h"

namespace retrace::sweep {

bool is_root(const auto& tape, int32_t value) { return tape.value(value).producer < 0; }
bool is_alive(const auto& tape, int32_t value) { return tape.value(value).alive > 0; }

// So many ops are left because the program still has what they made, and for no other reason. If they are more, what it
// has is a root from now on: a loop that goes on from one result, backward after backward, has a recipe as long as it
// has run, and each sweep would go along all of it.
inline constexpr size_t kMostForLiving = 2048;

// From the last op to the first: an op survives if a handle, a living tensor or a surviving op may ask for what it
// makes.
void let_go_unneeded(auto& tape) {
  auto& [wanted, wanted_for_living] = tape.marks();
  for (auto* const marks : {&wanted, &wanted_for_living}) marks->begin(static_cast<size_t>(tape.value_count()));
  const auto is_needed = [&](int32_t v) { return wanted.has(v) || is_alive(tape, v); };
  const auto let_go = [&](int32_t v) {
    if (tape.is_held(v) && !tape.is_shared(v)) tape.let_go(v);
  };
  std::vector<int32_t> for_living;
  for (int32_t op = tape.op_before(tape.op_count()); op >= 0; op = tape.op_before(op)) {
    bool survives = tape.op(op).alive > 0, is_for_living = false;
    for_each_output(tape.recorded(op), [&](int32_t v) {
      survives |= is_needed(v);
      is_for_living |= wanted_for_living.has(v) || (!survives && tape.is_living(v));
      if (!is_needed(v) && !wanted_for_living.has(v)) let_go(v);
    });
    if (!survives && !is_for_living) {
      tape.drop_op(op);
      continue;
    }
    if (!survives) for_living.push_back(op);
    for_each_read(tape.recorded(op), [&](int32_t v) { (survives ? wanted : wanted_for_living).set(v); });
  }
  const bool too_many = for_living.size() > kMostForLiving;
  if (too_many) {
    for (const int32_t op : for_living) tape.drop_op(op);
  }
  for (int32_t v = tape.present_from(0); v >= 0; v = tape.present_from(v + 1)) {
    if (is_root(tape, v) && !is_needed(v) && (too_many || !wanted_for_living.has(v))) let_go(v);
  }
}

// An op that reads a root nobody holds can never run again, so what it made are roots from now on. Gives how many
// survive.
size_t drop_lost_ops(auto& tape) {
  size_t surviving = 0;
  for (int32_t op = tape.op_from(0); op >= 0; op = tape.op_from(op + 1)) {
    bool lost = false;
    if (tape.op(op).alive == 0)
      for_each_read(tape.recorded(op), [&](int32_t v) { lost |= is_root(tape, v) && !tape.is_held(v); });
    lost ? tape.drop_op(op) : static_cast<void>(++surviving);
  }
  return surviving;
}

// What could be rebuilt, and no handle could come to need.
bool let_go_idle_results(auto& tape) {
  bool freed = false;
  for (int32_t v = tape.present_from(0); v >= 0; v = tape.present_from(v + 1)) {
    if (is_root(tape, v) || !tape.is_held(v) || tape.is_shared(v) || is_alive(tape, v) || tape.is_reached(v)) continue;
    tape.let_go(v);
    freed = true;
  }
  return freed;
}

// Whether it takes more than its bytes to hold, in its place, what is made from it and may be saved: whatever is made
// from that can be rebuilt without the root. What the program still has may be saved yet.
bool pays(auto& tape, int32_t root) {
  Marks& depends = tape.marks().first;
  depends.begin(static_cast<size_t>(tape.value_count()));
  depends.set(root);
  int64_t behind = 0;
  for (int32_t op = tape.op_from(0); op >= 0 && behind <= tape.bytes(root); op = tape.op_from(op + 1)) {
    bool reads = false;
    for_each_read(tape.recorded(op), [&](int32_t v) { reads |= depends.has(v); });
    if (!reads) continue;
    for_each_output(tape.recorded(op), [&](int32_t v) {
      const bool may_be_held = tape.may_be_saved(v);
      behind += may_be_held ? tape.bytes(v) : 0;
      if (!may_be_held) depends.set(v);
    });
  }
  return behind > tape.bytes(root);
}

// Each root is weighed once. Whether any was let go of: then some ops are lost.
bool let_go_unpaying_roots(auto& tape) {
  std::vector<int32_t> candidates;
  for (int32_t v = tape.present_from(0); v >= 0; v = tape.present_from(v + 1)) {
    const bool may_go = is_root(tape, v) && tape.is_held(v) && !tape.is_copy(v) && !is_alive(tape, v);
    if (may_go && !tape.is_shared(v) && !tape.has_handle(v) && !tape.was_weighed(v)) candidates.push_back(v);
  }
  bool freed = false;
  for (const int32_t root : candidates) {
    if (pays(tape, root)) continue;
    tape.let_go(root);
    freed = true;
  }
  return freed;
}

// Roots that nothing forgotten needs, until it is enough. Likewise.
bool let_go_roots(auto& tape, auto is_enough) {
  bool freed = false;
  for (int32_t v = tape.present_from(0); v >= 0 && !is_enough(); v = tape.present_from(v + 1)) {
    if (!is_root(tape, v) || !tape.is_held(v) || is_alive(tape, v) || tape.value(v).uses > 0 || tape.is_shared(v))
      continue;
    tape.let_go(v);
    freed = true;
  }
  return freed;
}

// -- All of it, where a `sweeping` (policy/sweeping.h) tells when it is worth the time; such a tape has kept_bytes(),
// too. --

void collect(auto& tape, auto& sweeping) {
  sweeping.begins();
  let_go_unneeded(tape);
  sweeping.ended(drop_lost_ops(tape));
}

// What nothing needs, and roots that do not pay. Returns whether anything was freed.
bool let_go_idle(auto& tape, auto& sweeping) {
  sweeping.looks_for_idle();
  const int64_t before = tape.kept_bytes();
  collect(tape, sweeping);
  const bool freed = let_go_idle_results(tape) || tape.kept_bytes() < before;
  if (!let_go_unpaying_roots(tape)) return freed;
  sweeping.ended(drop_lost_ops(tape));
  return true;
}

}  // namespace retrace::sweep
