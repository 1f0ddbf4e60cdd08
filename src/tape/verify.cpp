#include "tape/verify.h"

#include <retrace/errors.h>

#include "device/device.h"
#include "tape/handle.h"
#include "tape/scope.h"

namespace retrace {
namespace {

// Of the values at hand whose content differs from forward's, the one made first: it is nearest to the cause.
[[noreturn]] void report_mismatch(Tape& tape, const Handle& found) {
  const Handle* culprit = &found;
  for (const Handle* const handle : tape.handles.all()) {
    const Value& v = tape.value(handle->value());
    if (!handle->fingerprint() || !v.rebuilt || tape.is_root(v) || v.producer >= tape.value(culprit->value()).producer)
      continue;
    if (fingerprint(handle->geometry().over(v.rebuilt)) != *handle->fingerprint()) culprit = handle;
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

void verify_unpacked(Tape& tape, const Handle& handle, const c10::Storage& storage, const at::Tensor& tensor) {
  const Value& v = tape.value(handle.value());
  const Pause pause;
  const bool original = tape.is_original(handle.value(), storage);
  if (handle.fingerprint()) {
    if (fingerprint(tensor) == *handle.fingerprint()) {
      count(handle.counters(), &Counters::values_verified);
    } else if (!original) {
      report_mismatch(tape, handle);
    }
  } else if (!original && v.dense && !v.scratch && !tape.marking.lossy && !is_as_marked(v, storage)) {
    report_mismatch(tape, handle);
  }
}

}  // namespace retrace
