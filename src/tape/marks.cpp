#include "tape/marks.h"

#include <algorithm>

#include "device/device.h"
#include "tape/handle.h"
#include "tape/tape.h"
#include "tape/timeline.h"
#include "tape/writes.h"

namespace retrace {

namespace {

// Of a large content, so that who reads a small part of it need not look at all: a recurrent net takes its gates for
// one word after another out of one product.
constexpr size_t kPartBytes = size_t{128} << 10;

struct Bytes {
  size_t begin = 0, end = 0;
};

Bytes all_of(const c10::Storage& storage) { return {0, storage.nbytes()}; }

// From its first element to its last, in its storage.
Bytes bytes_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = tensor.storage_offset();
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const size_t item = tensor.itemsize();
  return {static_cast<size_t>(tensor.storage_offset()) * item, static_cast<size_t>(last + 1) * item};
}

uint64_t part(const c10::Storage& storage, size_t number) {
  return fingerprint(storage, number * kPartBytes, std::min(storage.nbytes(), (number + 1) * kPartBytes));
}

size_t parts_of(size_t bytes) { return (bytes + kPartBytes - 1) / kPartBytes; }

bool are_as_marked(const ValueMark& v, const c10::Storage& storage, Bytes bytes) {
  if (!v.marked) return true;
  if (v.parts.empty()) return v.mark == (v.marked_whole ? fingerprint(storage) : sample(storage));
  if (v.parts.size() != parts_of(storage.nbytes())) return false;
  for (size_t i = bytes.begin / kPartBytes; i < parts_of(bytes.end); ++i) {
    if (v.parts[i] != part(storage, i)) return false;
  }
  return true;
}

}  // namespace

void mark(ValueMark& v, const c10::Storage& storage, bool whole) {
  v.marked = true;
  v.marked_whole = whole;
  v.parts.clear();
  if (!whole || storage.nbytes() <= kPartBytes) {
    v.mark = whole ? fingerprint(storage) : sample(storage);
    return;
  }
  for (size_t i = 0; i < parts_of(storage.nbytes()); ++i) v.parts.push_back(part(storage, i));
}

bool is_as_marked(const ValueMark& v, const c10::Storage& storage) {
  return are_as_marked(v, storage, all_of(storage));
}

namespace {

// If nobody has read the content that its operator left, the value itself is without a recipe. Else there is one more
// value.
ValueId found_written(Tape& tape, ValueId id, const c10::Storage& storage) {
  const bool whole = tape.marking.whole;
  if (tape.value(id).looks == 1) {
    tape.make_root(id);
    if (tape.timeline) tape.timeline->became_root(tape, id);  // of a step that is only measured no value has a recipe
    tape.value(id).unwritten = false;
    mark(tape.value(id), storage, whole);
    return id;
  }
  if (tape.known && tape.is_root(tape.value(id))) {
    tape.known->add_fleeting(tape.value(id).first_look);
    if (tape.value(id).external) tape.known->add_refilled(storage);
  }
  if (!tape.value(id).held.is_copy()) tape.lose(id);
  const ValueId after = tape.add_found(id);
  tape.value(after).looks = 1;  // whoever found it
  tape.value(after).first_look = tape.marking.place;
  tape.value(after).fleeting |= tape.known && tape.known->is_fleeting(tape.marking.place);
  mark(tape.value(after), storage, whole);
  if (tape.value(id).handles > 0) tape.hold(after, storage);
  handles_follow(tape, {id, after});
  return after;
}

ValueId look_at(Tape& tape, ValueId id, const at::Tensor& tensor, Bytes bytes) {
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
  // What a factory made, seen for the first time: from now on a sample will do.
  const bool is_marked_anew = v.looks == 1 && v.marked_whole && !marking.whole;
  const bool as_marked = are_as_marked(v, tensor.storage(), is_marked_anew ? all_of(tensor.storage()) : bytes);
  if (!as_marked && tape.known) tape.known->add_written(place);
  if (!as_marked || (tape.known && tape.known->is_written(place))) return found_written(tape, id, tensor.storage());
  if (is_marked_anew) mark(v, tensor.storage(), false);
  return id;
}

}  // namespace

ValueId look_at(Tape& tape, const at::Tensor& tensor) {
  return look_at(tape, tape.value_of(tensor), tensor, all_of(tensor.storage()));
}

ValueId look_at_read(Tape& tape, const at::Tensor& tensor) {
  const ValueId id = tape.value_of(tensor);
  return look_at(tape, id, tensor, bytes_of(tensor));
}

bool may_be_forgotten(Tape& tape, ValueId id) {
  Value& v = tape.value(id);
  const c10::Storage held = v.held.storage();
  const bool is_saved_as_it_is = held && v.handles > 0 && !tape.is_root(v) && tape.is_original(id, held);
  if (!is_saved_as_it_is || is_as_marked(v, held)) return true;
  v.looks = std::max(v.looks, 2);  // it has been saved as it was
  found_written(tape, id, held);
  return false;
}

void look_at_saved(Tape& tape) {
  if (!tape.marking.may_forget) return;
  std::vector<ValueId> saved;  // handles may follow to what is found
  for (const Handle* const handle : tape.handles.all()) {
    if (!tape.value(handle->value()).held) saved.push_back(handle->value());
  }
  // What is held, and saved, and read by what will be run again: that needs what was there, its handles what is there.
  for (OpId id = tape.op_from(0); id != kNone; id = tape.op_from(id + 1)) {
    if (tape.op(id).alive == 0) continue;
    for_each_read(tape.op(id), [&](ValueId v) {
      if (tape.value(v).held && !tape.is_root(tape.value(v))) saved.push_back(v);
    });
  }
  std::sort(saved.begin(), saved.end());
  saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
  for (const ValueId id : saved) {
    Value& v = tape.value(id);
    if (v.handles == 0 || !v.marked) continue;
    const c10::Storage living = tape.living_storage(id);
    if (!living || is_as_marked(v, living)) continue;
    v.looks = std::max(v.looks, 2);  // it has been saved as it was
    found_written(tape, id, living);
  }
}

}  // namespace retrace
