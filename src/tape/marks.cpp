// Content that is what its operator left there, or is not.
#include <algorithm>

#include "plan/simulate/demand.h"
#include "tape/fingerprint.h"
#include "tape/tape.h"
#include "tape/timeline.h"

namespace retrace {

void Tape::mark(ValueId id, const c10::Storage& storage, bool whole) {
  Value& v = value(id);
  v.mark = whole ? fingerprint(storage) : sample(storage);
  v.marked = true;
  v.marked_whole = whole;
}

bool Tape::is_as_marked(ValueId id, const c10::Storage& storage) const {
  const Value& v = value(id);
  return !v.marked || v.mark == (v.marked_whole ? fingerprint(storage) : sample(storage));
}

void Tape::begin_places(uint64_t prefix_hash) { place_ = prefix_hash; }

ValueId Tape::look_at(const at::Tensor& tensor) {
  const ValueId id = value_of(tensor);
  if (!may_forget) return id;
  Value& v = value(id);
  ++place_;
  if (v.looks++ == 0) {
    v.first_look = place_;
    v.fleeting |= known && known->is_fleeting(place_);
  }
  if (!v.marked) {  // written by something that may still have been at it
    mark(id, tensor.storage(), verifies_);
    return id;
  }
  const bool as_marked = is_as_marked(id, tensor.storage());
  if (!as_marked && known) known->add_written(place_);
  if (!as_marked || (known && known->is_written(place_))) return found_written(id, tensor.storage());
  if (v.marked_whole && !verifies_) mark(id, tensor.storage(), false);  // what a factory made, seen for the first time
  return id;
}

// If nobody has read the content that its operator left, the value itself is without a recipe. Else there is one more value.
ValueId Tape::found_written(ValueId id, const c10::Storage& storage) {
  if (value(id).looks == 1) {
    make_root(id);
    if (timeline) timeline->became_root(id);  // of a step that is only measured no value has a recipe
    value(id).unwritten = false;
    mark(id, storage, verifies_);
    return id;
  }
  if (known && is_root(value(id))) known->add_fleeting(value(id).first_look);
  if (!value(id).held.is_copy()) lose(id);
  const StorageId its = value(id).storage;
  const ValueId after = add_value(its, kNone, value(id).bytes);
  value(after).external = value(id).external;
  value(after).fleeting = value(id).fleeting;
  value(after).dtype = value(id).dtype;
  mark(after, storage, verifies_);
  if (value(id).handles > 0) {
    hold(after, storage);
    handles_follow({its, id, after});
  }
  if (timeline && value(id).holders > 0) keepers_follow({its, id, after});
  return after;
}

// Before a backward and at the end: nobody else looks at what was saved and forgotten while the program still has it.
void Tape::look_at_saved() {
  if (!may_forget) return;
  for (size_t v = 0; v < values_.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (values_[v].handles == 0 || values_[v].held || !values_[v].marked) continue;
    const c10::Storage living = living_storage(id);
    if (!living || is_as_marked(id, living)) continue;
    values_[v].looks = std::max(values_[v].looks, 2);  // it has been saved as it was
    found_written(id, living);
  }
}

}  // namespace retrace
