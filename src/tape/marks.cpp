#include "tape/marks.h"

#include <algorithm>

#include "device/device.h"
#include "tape/tape.h"
#include "tape/timeline.h"
#include "tape/writes.h"

namespace retrace {

void mark(ValueMark& v, const c10::Storage& storage, bool whole) {
  v.mark = whole ? fingerprint(storage) : sample(storage);
  v.marked = true;
  v.marked_whole = whole;
}

bool is_as_marked(const ValueMark& v, const c10::Storage& storage) {
  return !v.marked || v.mark == (v.marked_whole ? fingerprint(storage) : sample(storage));
}

namespace {

// If nobody has read the content that its operator left, the value itself is without a recipe. Else there is one more value.
ValueId found_written(Tape& tape, ValueId id, const c10::Storage& storage) {
  const bool whole = tape.marking.whole;
  if (tape.value(id).looks == 1) {
    tape.make_root(id);
    if (tape.timeline) tape.timeline->became_root(tape, id);  // of a step that is only measured no value has a recipe
    tape.value(id).unwritten = false;
    mark(tape.value(id), storage, whole);
    return id;
  }
  if (tape.known && tape.is_root(tape.value(id))) tape.known->add_fleeting(tape.value(id).first_look);
  if (!tape.value(id).held.is_copy()) tape.lose(id);
  const ValueId after = tape.add_found(id);
  mark(tape.value(after), storage, whole);
  if (tape.value(id).handles > 0) tape.hold(after, storage);
  handles_follow(tape, {id, after});
  return after;
}

}  // namespace

ValueId look_at(Tape& tape, const at::Tensor& tensor) {
  const ValueId id = tape.value_of(tensor);
  Marking& marking = tape.marking;
  if (!marking.may_forget) return id;
  Value& v = tape.value(id);
  const uint64_t place = ++marking.place;
  if (v.looks++ == 0) {
    v.first_look = place;
    v.fleeting |= tape.known && tape.known->is_fleeting(place);
  }
  if (!v.marked) {  // written by something that may still have been at it
    mark(v, tensor.storage(), marking.whole);
    return id;
  }
  const bool as_marked = is_as_marked(v, tensor.storage());
  if (!as_marked && tape.known) tape.known->add_written(place);
  if (!as_marked || (tape.known && tape.known->is_written(place))) return found_written(tape, id, tensor.storage());
  // What a factory made, seen for the first time.
  if (v.marked_whole && !marking.whole) mark(v, tensor.storage(), false);
  return id;
}

void look_at_saved(Tape& tape) {
  if (!tape.marking.may_forget) return;
  for (ValueId id = 0; id < tape.next_value(); ++id) {
    Value& v = tape.value(id);
    if (v.handles == 0 || v.held || !v.marked) continue;
    const c10::Storage living = tape.living_storage(id);
    if (!living || is_as_marked(v, living)) continue;
    v.looks = std::max(v.looks, 2);  // it has been saved as it was
    found_written(tape, id, living);
  }
}

}  // namespace retrace
