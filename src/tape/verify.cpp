#include "tape/verify.h"

#include <retrace/errors.h>

#include "device/device.h"
#include "tape/handle.h"
#include "tape/scope.h"

namespace retrace {
namespace {

// With a fingerprint of all that the handle stands for, or a mark of all bytes of its value.
bool is_compared_whole(const Value& v, const Handle& handle) {
  return handle.fingerprint() || (v.dense && v.marked_whole);
}

// Whether a storage has what the handle's tensor had in forward, as far as that can be told.
bool is_as_saved(const Value& v, const Handle& handle, const c10::Storage& storage) {
  if (handle.fingerprint()) return fingerprint(handle.geometry().over(storage)) == *handle.fingerprint();
  return !v.dense || is_as_marked(v, storage);
}

// Of the values at hand whose content differs from forward's, the one made first: it is nearest to the cause.
[[noreturn]] void report_mismatch(Tape& tape, const Handle& found) {
  const Handle* culprit = &found;
  for (const Handle* const handle : tape.handles.all()) {
    const Value& v = tape.value(handle->value());
    if (!v.rebuilt || v.scratch || tape.is_root(v) || v.producer >= tape.value(culprit->value()).producer) continue;
    if (!is_as_saved(v, *handle, v.rebuilt)) culprit = handle;
  }
  const Op* const op = tape.find_op(tape.value(culprit->value()).producer);
  const std::string name = op ? op->name() : "?";
  throw InternalError("[verify] op '" + name + "': its result " + culprit->geometry().describe() +
                      " differs from the one computed in forward, so gradients would be wrong. The operator, or one "
                      "before it that saves nothing, does not compute the same thing twice, or memory was changed "
                      "behind LibTorch's back. Keep its result with retrace::selective({\"" +
                      name + "\"}).");
}

}  // namespace

void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage) {
  const Value& v = tape.value(handle.value());
  if (tape.is_original(handle.value(), storage) || v.scratch || tape.marking.lossy) return;
  const Pause pause;
  if (!is_as_saved(v, handle, storage)) report_mismatch(tape, handle);
  if (is_compared_whole(v, handle)) count(handle.counters(), &Counters::values_verified);
}

}  // namespace retrace
