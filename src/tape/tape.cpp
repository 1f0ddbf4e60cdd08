#include "tape/tape.h"

#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

#include "device/device.h"
#include "memory/allocator.h"
#include "plan/simulate/demand.h"
#include "tape/budgeted_step.h"
#include "tape/generator.h"
#include "tape/handle.h"
#include "tape/runtime_view.h"
#include "tape/scope.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

using memory::Owner;

int64_t storage_bytes(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

template <class T, unsigned N>
size_t heap_bytes(const c10::SmallVector<T, N>& vector) {
  return vector.capacity() > N ? vector.capacity() * sizeof(T) : 0;
}

size_t bytes_of(const Op& op) {
  return sizeof(Op) + heap_bytes(op.args) + heap_bytes(op.stack) + heap_bytes(op.fresh) +
         op.lists.capacity() * sizeof(ListArg) + (op.generator.defined() ? generator_bytes() : 0);
}

}  // namespace

ValueId Tape::add_value(StorageId id, OpId producer, int64_t bytes) {
  Value& v = values_.emplace_back();
  v.storage = id;
  v.producer = producer;
  v.recorded_at = next_op();
  v.bytes = bytes;
  v.last_used = clock_;
  hold_if_better.made(bytes);
  return storage(id).current = next_value() - 1;
}

ValueId Tape::find(const at::Tensor& tensor) const {
  const StorageId id = storages.find(tensor.storage());
  return id == kNone ? kNone : storages[id].current;
}

ValueId Tape::value_of(const at::Tensor& tensor) {
  const StorageId id = storages.find_or_add(tensor);
  StorageRecord& record = storage(id);
  if (record.current == kNone) {
    const ValueId v = add_value(id, kNone, storage_bytes(tensor));
    value(v).external = true;
    value(v).fleeting = !memory::is_owned(tensor.storage()) || (known && known->is_refilled(tensor.storage()));
    if (tags_weights && tensor.requires_grad() && tensor.is_leaf()) leaves.add(tensor);
    return v;
  }
  if (tags_weights && value(record.current).external && tensor.requires_grad() && tensor.is_leaf())
    memory::Leaves::used_again(tensor);
  if (!record.unchanged()) {
    // Written by somebody we did not see: the old content is gone, the new one has no recipe.
    let_go(record.current);
    record.expect_current();
    const bool external = value(record.current).external;
    value(add_value(id, kNone, storage_bytes(tensor))).external = external;
    sweeping.dirty = true;
  }
  return storage(id).current;
}

ValueId Tape::add_fresh(const at::Tensor& tensor, OpId producer) {
  const ValueId id = add_value(storages.find_or_add(tensor), producer, storage_bytes(tensor));
  value(id).dtype = tensor.scalar_type();
  if (timeline) timeline->track(tensor.storage());
  return id;
}

ValueId Tape::add_written(const at::Tensor& tensor, OpId producer) {
  const StorageId id = storages.find_or_add(tensor);
  const ValueId before = storage(id).current;
  const ValueId after = add_value(id, producer, storage_bytes(tensor));
  value(after).keep = value(before).keep;
  value(after).dtype = value(before).dtype;
  value(after).external = value(before).external;
  unsettled.push_back({before, after});
  if (value(before).handles > 0 && producer == kNone) hold(after, tensor.storage());  // they may follow
  return after;
}

ValueId Tape::add_found(ValueId before) {
  const ValueId after = add_value(value(before).storage, kNone, value(before).bytes);
  value(after).external = value(before).external;
  value(after).fleeting = value(before).fleeting;
  value(after).dtype = value(before).dtype;
  return after;
}

void Tape::append(std::unique_ptr<Op> op) {
  for (TensorArg& arg : op->args) {
    if (arg.shape_only) continue;
    Value& v = value(arg.value);
    v.consumed = true;
    arg.read_before_by = std::exchange(v.last_read_by, next_op());
  }
  op_bytes_ += bytes_of(*op);
  ops_left_.insert(next_op());
  ops_.push_back(std::move(op));
  sweeping.op_recorded();
}

void Tape::reserve(size_t ops, size_t values) {
  ops_.reserve(ops);
  values_.reserve(values);
  storages.reserve(values);
}

void Tape::make_root(ValueId id) {
  if (is_root(value(id))) return;
  becomes_source<Reach>(*this, id);
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  value(id).producer = kNone;
  if (timeline) timeline->became_root(*this, id);
}

void Tape::drop_op(OpId id) {
  for_each_output(op(id), [&](ValueId v) {
    if (value(v).producer != id) return;
    becomes_source<Reach>(*this, v);
    value(v).producer = kNone;
    if (timeline && is_living(v)) timeline->became_root(*this, v);
  });
  op_bytes_ -= bytes_of(op(id));
  ops_[static_cast<size_t>(id)].reset();
  ops_left_.erase(id);
}

int32_t Tape::note_settings() {
  const Settings now = Settings::now();
  if (settings_.empty() || !(settings_.back() == now)) settings_.push_back(now);
  return static_cast<int32_t>(settings_.size() - 1);
}

void Tape::hold(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (v.held) return;
  if (auto stored = v.kind ? store(v, *v.kind, storage) : nullptr) {
    becomes_held(id);
    v.held = store::Content::stored(std::move(stored));
    return note_kept(v.held.bytes());
  }
  becomes_held(id);
  v.held = store::Content::as_it_is(storage);
  if (!v.marked) mark(v, storage, false);
  add_holder(id, storage);
  if (v.external && timeline) timeline->holds_external(id);
  note_held(id);
}

// Before it does.
void Tape::becomes_held(ValueId id) {
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  present_.insert(id);
}

std::unique_ptr<const store::Stored> Tape::store(const Value& v, const store::Kind& kind, const c10::Storage& content) {
  const memory::OwnerScope owner(Owner::kept);
  const DeviceSupport& device = device_of(content.device_type());
  const auto start = device.now();
  auto stored = kind.put(content, v.dtype);
  const auto spent = device.now() - start;
  if (!stored) return nullptr;
  if (const c10::Storage on_device = stored->on_device(); timeline && on_device) timeline->track(on_device);
  for (const StepCounters& one : counters) {
    count(one.get(), &Counters::replay_nanoseconds, std::chrono::nanoseconds(spent).count());
  }
  return stored;
}

bool Tape::put_away(ValueId id, const store::Kind& kind) {
  Value& v = value(id);
  const c10::Storage content = v.held.storage();
  const memory::SameWindow window;  // an operator may be in the middle of its work
  auto stored = store(v, kind, content);
  if (!stored) return false;
  v.held = store::Content::stored(std::move(stored));
  remove_holder(id, content);
  note_kept(v.held.bytes());
  return true;
}

void Tape::hold_copy(ValueId id, c10::Storage copy) {
  let_go(id);
  becomes_held(id);
  Value& v = value(id);
  v.held = store::Content::copy(std::move(copy));
  note_kept(v.bytes);
  memory::set_owner(v.held.storage(), Owner::kept);
  note_held(id);
}

void Tape::hold_unpacked(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (v.held || is_root(v) || is_original(id, storage)) return;
  becomes_held(id);
  v.held = store::Content::rebuilt(storage);
}

void Tape::hold_rebuilt(ValueId id) {
  hold_unpacked(id, value(id).rebuilt);
  note_held(id);
}

void Tape::note_held(ValueId id) {
  if (budgeted_step) return;  // a budget's affair
  pressure.since_balance.held(RuntimeView(*this), id);
}

void Tape::add_holder(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (v.external || v.holders++ > 0) return;
  note_kept(v.bytes);
  memory::change_owner(storage, Owner::other, Owner::kept);
}

void Tape::remove_holder(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (v.external || --v.holders > 0) return;
  note_kept(-v.bytes);
  memory::change_owner(storage, Owner::kept, Owner::other);
}

void Tape::let_go(ValueId id) {
  Value& v = value(id);
  if (!v.held || handles_may_follow_to(id)) return;
  const store::Content content = std::exchange(v.held, {});
  if (content.is_rebuilt()) {
    // It was never among what is kept.
  } else if (content.is_stored() || content.is_copy()) {
    if (timeline) timeline->copy_gone(id);
    note_kept(-content.bytes());
  } else {
    if (v.external && timeline) timeline->copy_gone(id);
    remove_holder(id, content.storage());
    if (v.external && !memory::is_owned(content.storage())) trash_.push_back(content.storage());  // a deleter not ours
  }
  ceases_source<Alive>(*this, id);
  ceases_source<Pending>(*this, id);
}

// Until the next event: another thread that lacks memory may ask to let go of something before that.
bool Tape::handles_may_follow_to(ValueId id) const {
  return std::any_of(unsettled.begin(), unsettled.end(), [&](const Written& w) { return w.after == id; });
}

void Tape::lose(ValueId id) {
  let_go(id);
  sweeping.dirty |= is_root(value(id)) && value(id).consumed;
}

void Tape::note_kept(int64_t delta) {
  kept_bytes_ += delta;
  if (delta < 0) return;
  for (const StepCounters& one : counters) count_most(one.get(), &Counters::kept_bytes, kept_bytes_);
}

void Tape::nobody_alive(ValueId id) {
  if (!value(id).held) return;
  const bool root = is_root(value(id)), in_backward = !closed_ && thread_phase() == Phase::backward;
  if (root && !needed_recipes_.empty()) return;  // a recipe that is not counted may need it
  if (!closed_ && !goes_if_not_alive(in_backward, dropping_, counts_reach_, [&] { return root; })) return;
  let_go(id);
  sweeping.dirty |= in_backward;
}

void Tape::nobody_reach(ValueId id) {
  const Value& v = value(id);
  if (closed_ || thread_phase() != Phase::backward || !v.held || !is_root(v) || v.held.is_shared()) return;
  if (!needed_recipes_.empty()) return;
  let_go(id);
  sweeping.dirty = true;
}

void Tape::keeper_gone(ValueId id) {
  if (value(id).alive == 0) nobody_alive(id);
  if (counts_reach_ && value(id).reach == 0) nobody_reach(id);
}

void Tape::nobody_pending(ValueId id) {
  if (value(id).uses == 0) value(id).rebuilt = c10::Storage();
}

void Tape::close() {
  closed_ = true;
  storages.forget_addresses();
}

void Tape::add_handle(Handle& handle) {
  handles.add(handle);
  sweeping.saved();
  ++value(handle.value()).handles;
  change_need<Alive>(*this, handle.value(), 1);
  if (counts_reach_) change_need<Reach>(*this, handle.value(), 1);
}

void Tape::remove_handle(Handle& handle) {
  handles.remove(handle);
  sweeping.dropped();
  --value(handle.value()).handles;
  if (const int32_t owed = handles.rounds_owing(handle)) change_need<Pending>(*this, handle.value(), -owed);
  if (!budgeted_step) pressure.since_balance.dropped(RuntimeView(*this), handle.value());
  change_need<Alive>(*this, handle.value(), -1);
  if (counts_reach_) change_need<Reach>(*this, handle.value(), -1);
}

void Tape::drop_handle(Handle& handle) {
  dropping_ = true;
  remove_handle(handle);
  dropping_ = false;
}

void Tape::count_needed_recipes() {
  for (NeededRecipe& recipe : needed_recipes_) {
    if (!std::exchange(recipe.counted, true)) change_need<Alive>(*this, recipe.value, 1);
  }
}

void Tape::recipe_not_needed(ValueId id) {
  const auto recipe = std::find_if(needed_recipes_.begin(), needed_recipes_.end(),
                                   [&](const NeededRecipe& r) { return r.value == id; });
  const bool counted = recipe->counted;
  needed_recipes_.erase(recipe);
  if (counted) change_need<Alive>(*this, id, -1);
}

bool Tape::join_round(uint64_t round) {
  if (!handles.join_round(round)) return false;
  for (const Handle* const handle : handles.all()) change_need<Pending>(*this, handle->value(), 1);
  return true;
}

void Tape::end_round(uint64_t round, bool recorded) {
  if (!handles.leave_round(round)) return;
  if (!handles.has_rounds()) {
    RuntimeView view(*this);
    between_backwards.ends(view, recorded && !closed_);
  }
  for (Handle* const handle : handles.all()) {
    if (!handle->forget_round(round)) change_need<Pending>(*this, handle->value(), -1);
  }
  if (handles.has_rounds()) return;
  for (const ValueId start : std::exchange(segmenting.starts, {})) value(start).segment_start = false;
  segmenting.segment_bytes = segmenting.saved_bytes = 0;
}

c10::Storage Tape::living_storage(ValueId id) const {
  const StorageRecord& record = storages[value(id).storage];
  return record.current == id ? record.living() : c10::Storage();
}

bool Tape::is_living(ValueId id) const {
  const StorageRecord& record = storages[value(id).storage];
  return record.current == id && record.is_living();
}

c10::Storage Tape::content(ValueId id, const Op* wanted_by) {
  const Value& v = value(id);
  if (v.rebuilt && wanted_by) return v.rebuilt;
  const c10::Storage& held = v.held.storage();
  if (held && !is_original(id, held)) return held;
  // Somebody who unpacks gets what the tensor has become, as from plain autograd; an operator needs what it read.
  c10::Storage living = !held ? living_storage(id) : is_living(id) ? held : c10::Storage();
  if (living && wanted_by && !is_as_marked(v, living)) living = c10::Storage();
  if (!living && v.rebuilt) return v.rebuilt;
  if (living || (!held && (!is_root(v) || v.held))) return living;
  // Its recipe gives what was there, and handles find what is there, unless only the tape has it.
  if (wanted_by && !is_root(v) && (v.handles == 0 || v.held.is_shared())) {
    let_go(id);
    return living;
  }
  if (known) known->add_fleeting(v.first_look);  // in later steps, what reads it is kept
  throw UsageError("[backward] op '" + (wanted_by ? wanted_by->name() : std::string("?")) +
                   "': a tensor it read was changed after forward (an in-place operator, an optimizer's step, a "
                   "pointer), so its result cannot be rebuilt. Change such tensors after backward, or change a clone.");
}

int64_t Tape::bytes() const {
  size_t total =
      sizeof(*this) + values_.capacity() * sizeof(Value) + handles.bytes() + storages.bytes() + geometries.bytes();
  total += ops_.capacity() * sizeof(void*);
  total += op_bytes_;
  return static_cast<int64_t>(total);
}

void Tape::measure() {
  const int64_t now = bytes();
  for (const StepCounters& one : counters) count_most(one.get(), &Counters::tape_bytes, now);
}

}  // namespace retrace
