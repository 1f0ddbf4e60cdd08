#include "tape/writes.h"

#include "tape/budgeted_step.h"
#include "tape/fate.h"
#include "tape/handle.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

void follow(Tape& tape, Handle& handle, const Tape::Written& written) {
  tape.remove_handle(handle);
  handle.follow(written.after);
  tape.add_handle(handle);
  if (tape.timeline && handle.timeline_id() >= 0) {
    tape.timeline->dropped(tape, handle.timeline_id());
    handle.set_timeline_id(tape.timeline->saved(tape, written.after));
  }
  if (!is_held_when_saved(fate_of(tape, written.after))) return;
  if (const c10::Storage living = tape.living_storage(written.after)) tape.hold(written.after, living);
}

// Of one that keeps the tensor itself, nothing changes but what the planner should think of.
void keeper_follows(Tape& tape, Handle& keeper, const Tape::Written& written) {
  keeper.hold_as(tape, written.after);
  tape.timeline->dropped(tape, keeper.timeline_id());
  keeper.set_timeline_id(tape.timeline->saved(tape, written.after));
  if (tape.budgeted_step && !tape.budgeted_step->only_measures()) tape.timeline->became_root(tape, written.after);
}

void hold_rebuilt(Tape& tape, ValueId id) {
  c10::Storage storage = tape.rebuild(tape, id);
  tape.is_original(id, storage) ? tape.hold(id, storage) : tape.hold_copy(id, std::move(storage));
}

// By value: to have it, one would have to begin with the root.
std::vector<char> dependents_of(Tape& tape, ValueId root) {
  std::vector<char> depends(static_cast<size_t>(tape.next_value()));
  depends[static_cast<size_t>(root)] = 1;
  for (OpId id = tape.op_from(0); id != kNone; id = tape.op_from(id + 1)) {
    const Op& op = tape.op(id);
    if (!reads_any(op, depends)) continue;
    for_each_output(op, [&](ValueId v) { depends[static_cast<size_t>(v)] |= !Alive::is_source(tape.value(v)); });
  }
  return depends;
}

}  // namespace

void begin_event(Tape& tape) {
  tape.begin_event();
  for (const Tape::Written& written : std::exchange(tape.unsettled, {})) {
    tape.storage(tape.value(written.after).storage).expect_current();
    handles_follow(tape, written);
    if (const Value& after = tape.value(written.after); after.held && after.handles == 0 && after.alive == 0)
      tape.let_go(written.after);  // it was held for them
  }
  sweep_if_due(tape);
}

void handles_follow(Tape& tape, const Tape::Written& written) {
  for (Handle* const handle : tape.handles.of(written.before)) {
    if (!handle->is_unchanged()) continue;
    if (handle->value() == written.before) {
      follow(tape, *handle, written);
    } else if (tape.timeline && handle->timeline_id() >= 0) {
      keeper_follows(tape, *handle, written);
    }
  }
}

void secure_dependents(Tape& tape, ValueId root) {
  if (tape.value(root).alive == 0 && !tape.budgeted_step) return;
  const std::vector<char> depends = dependents_of(tape, root);
  for (OpId id = tape.op_from(0); id != kNone; id = tape.op_from(id + 1)) {
    const Op& op = tape.op(id);
    if (!reads_any(op, depends)) continue;
    // What is held already can no longer be rebuilt, so nothing may let go of it.
    for_each_output(op, [&](ValueId v) {
      if (Alive::is_source(tape.value(v))) tape.make_root(v);
    });
  }
  const std::vector<Handle*> handles = tape.handles.all();
  for (Handle* const handle : handles) {
    const ValueId v = handle->value();
    if (!depends[static_cast<size_t>(v)]) continue;
    if (!tape.value(v).held) hold_rebuilt(tape, v);
    tape.make_root(v);
  }
}

int64_t bytes_to_secure(Tape& tape, ValueId root) {
  std::vector<char> depends = dependents_of(tape, root);
  int64_t bytes = 0;
  for (const Handle* const handle : tape.handles.all()) {
    const ValueId v = handle->value();
    if (std::exchange(depends[static_cast<size_t>(v)], 0) == 0) continue;
    if (tape.budgeted_step || !tape.is_living(v)) bytes += tape.value(v).bytes;
  }
  return bytes;
}

}  // namespace retrace
