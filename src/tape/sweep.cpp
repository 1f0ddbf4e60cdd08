#include "tape/sweep.h"

#include <algorithm>

#include "tape/scope.h"
#include "tape/tape.h"
#include "tape/writes.h"

namespace retrace {
namespace {

// An op that reads a root nobody holds can never run again, so what it made are roots from now on.
void drop_lost_ops(Tape& tape) {
  size_t surviving = 0;
  for (OpId id = 0; id < tape.next_op(); ++id) {
    const Op* const candidate = tape.find_op(id);
    if (!candidate) continue;
    const bool lost =
        candidate->alive == 0 && std::any_of(candidate->args.begin(), candidate->args.end(), [&](auto& arg) {
          return !arg.shape_only && tape.is_root(tape.value(arg.value)) && !tape.value(arg.value).held;
        });
    lost ? tape.drop_op(id) : static_cast<void>(++surviving);
  }
  tape.sweeping.ended(surviving);
}

// The tape alone has it, and no handle could come to need it.
bool is_idle(const Value& v) { return v.held && !v.held.is_shared() && v.alive == 0 && v.reach == 0; }

bool let_go_unpaying_roots(Tape& tape) {
  std::vector<ValueId> candidates;
  for (ValueId v = 0; v < tape.next_value(); ++v) {
    Value& root = tape.value(v);
    if (!tape.is_root(root) || !root.held || root.held.is_copy() || root.alive > 0) continue;
    if (root.held.is_shared() || root.handles > 0 || std::exchange(root.weighed, true)) continue;
    candidates.push_back(v);
  }
  if (candidates.empty()) return false;
  bool freed = false;
  std::vector<char> depends(static_cast<size_t>(tape.next_value()));
  for (const ValueId root : candidates) {
    std::fill(depends.begin(), depends.end(), 0);
    depends[static_cast<size_t>(root)] = 1;
    int64_t behind = 0;
    for (OpId id = 0; id < tape.next_op(); ++id) {
      const Op* const candidate = tape.find_op(id);
      if (!candidate || !reads_any(*candidate, depends)) continue;
      // What the program still has may be saved yet.
      for_each_output(*candidate, [&](ValueId v) {
        depends[static_cast<size_t>(v)] = 1;
        if (tape.value(v).handles > 0 || tape.storage(tape.value(v).storage).pin.use_count() > 0)
          behind += tape.value(v).bytes;
      });
      if (behind > tape.value(root).bytes) break;
    }
    if (behind > tape.value(root).bytes) continue;
    tape.let_go(root);
    freed = true;
  }
  if (freed) drop_lost_ops(tape);
  return freed;
}

}  // namespace

// Two sweeps. Backwards: an op survives if a handle, a living tensor or a surviving op may ask for what it makes. Forwards:
// drop_lost_ops().
void collect(Tape& tape) {
  tape.count_needed_recipes();
  tape.sweeping.begins();
  std::vector<char> wanted(static_cast<size_t>(tape.next_value()));
  const auto is_needed = [&](ValueId id) {
    const Value& v = tape.value(id);
    const bool needed = wanted[static_cast<size_t>(id)] || v.alive > 0;
    if (!needed && v.held && !v.held.is_shared()) tape.let_go(id);
    return needed;
  };
  for (OpId id = tape.next_op() - 1; id >= 0; --id) {
    Op* const candidate = tape.find_op(id);
    if (!candidate) continue;
    bool survives = candidate->alive > 0;
    for_each_output(*candidate, [&](ValueId v) { survives |= is_needed(v) || (!survives && tape.living_storage(v)); });
    if (!survives) {
      tape.drop_op(id);
      continue;
    }
    for (const TensorArg& arg : candidate->args) wanted[static_cast<size_t>(arg.value)] |= !arg.shape_only;
  }
  for (ValueId v = 0; v < tape.next_value(); ++v) {
    if (tape.is_root(tape.value(v))) is_needed(v);
  }
  drop_lost_ops(tape);
}

void sweep_if_due(Tape& tape) {
  if (!tape.closed() && tape.sweeping.is_due(thread_phase() == Phase::backward)) collect(tape);
}

bool let_go_idle(Tape& tape) {
  tape.sweeping.looks_for_idle();
  const int64_t before = tape.kept_bytes();
  collect(tape);
  bool freed = tape.kept_bytes() < before;
  for (ValueId v = 0; v < tape.next_value(); ++v) {
    if (!is_idle(tape.value(v)) || tape.is_root(tape.value(v))) continue;
    tape.let_go(v);
    freed = true;
  }
  return let_go_unpaying_roots(tape) || freed;
}

bool let_go_roots(Tape& tape) {
  tape.count_needed_recipes();
  bool freed = false;
  for (ValueId v = 0; v < tape.next_value(); ++v) {
    const Value& root = tape.value(v);
    if (!tape.is_root(root) || !root.held || root.alive > 0 || root.uses > 0 || root.held.is_shared()) continue;
    tape.let_go(v);
    freed = true;
  }
  if (freed) drop_lost_ops(tape);
  return freed;
}

void close(Tape& tape) {
  begin_event(tape);
  look_at_saved(tape);
  tape.measure();
  tape.close();
  // Under a budget a later step may let go of what this one keeps.
  for (OpId id = 0; id < tape.next_op(); ++id) {
    if (tape.find_op(id) && tape.op(id).alive == 0 && tape.op(id).reach == 0) tape.drop_op(id);
  }
  for (ValueId v = 0; v < tape.next_value(); ++v) {
    if (tape.value(v).alive == 0) tape.let_go(v);
  }
}

}  // namespace retrace
