#include "tape/tape.h"

#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

#include "memory/allocator.h"
#include "plan/simulate/demand.h"
#include "tape/budgeted_step.h"
#include "tape/generator.h"
#include "tape/handle.h"
#include "tape/scope.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

using memory::Owner;

constexpr size_t kCollectAtLeast = 4096;  // ops; below that a sweep gains nothing worth its time

uint32_t current_version(const c10::VariableVersion& version) {
  return version.enabled() ? version.current_version() : 0;
}

int64_t storage_bytes(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

}  // namespace

bool StorageRecord::unchanged() const {
  return current_version(version) == expected &&
         std::all_of(more.begin(), more.end(), [](const auto& m) { return current_version(m.first) == m.second; });
}

void StorageRecord::expect_current() {
  expected = current_version(version);
  for (auto& [counter, count] : more) count = current_version(counter);
}

thread_local int locks_held = 0;

Tape::Lock::Lock(Tape& tape) : tape_(&tape) {
  tape.mutex_.lock();
  ++tape.lock_depth_;
  ++locks_held;
}

Tape::Lock::Lock(Tape& tape, std::try_to_lock_t) : tape_(tape.mutex_.try_lock() ? &tape : nullptr) {
  if (!tape_) return;
  ++tape.lock_depth_;
  ++locks_held;
}

Tape::Lock::~Lock() {
  if (!tape_) return;
  std::vector<c10::Storage> trash;
  if (--tape_->lock_depth_ == 0) trash.swap(tape_->trash_);
  --locks_held;
  tape_->mutex_.unlock();
}

bool Tape::Lock::held_by_this_thread() { return locks_held > 0; }

void Tape::begin_event() {
  ++clock_;
  for (const Written& written : std::exchange(unsettled_, {})) {
    storage(written.storage).expect_current();
    if (value(written.before).handles > 0) handles_follow(written);
    if (timeline && value(written.before).holders > 0) keepers_follow(written);
  }
  if (closed_) return;
  // A backward lets go of values one by one: a sweep for each would take the square of the tape's length.
  const bool due = thread_phase() == Phase::backward ? dirty_ && ++since_dirty_ * 16 > surviving_ops_ : dirty_;
  if (due || since_collect_ > std::max(kCollectAtLeast, surviving_ops_)) collect();
}

// A write that does not count as one (BatchNorm's statistics, tensor.data()) changes a saved tensor, and autograd goes on
// with the new content. So do we.
void Tape::handles_follow(const Written& written) {
  const std::vector<Handle*> handles = handles_;
  for (Handle* const handle : handles) {
    if (handle->value() != written.before || !handle->is_unchanged()) continue;
    remove_handle(*handle);
    handle->follow(written.after);
    add_handle(*handle);
    if (timeline && handle->timeline_id() >= 0) {
      timeline->dropped(*this, handle->timeline_id());
      handle->set_timeline_id(timeline->saved(*this, written.after));
    }
    const bool keeps =
        value(written.after).keep || is_root(value(written.after)) || (budgeted_step && !budgeted_step->follows_plan());
    if (const c10::Storage living = keeps ? living_storage(written.after) : c10::Storage()) hold(written.after, living);
  }
}

// The same for those that keep the tensor itself: nothing changes but what the planner should think of.
void Tape::keepers_follow(const Written& written) {
  for (Handle* const keeper : keepers_) {
    if (keeper->holds() != written.before || keeper->timeline_id() < 0 || !keeper->is_unchanged()) continue;
    keeper->hold_as(*this, written.after);
    timeline->dropped(*this, keeper->timeline_id());
    keeper->set_timeline_id(timeline->saved(*this, written.after));
    if (budgeted_step) timeline->became_root(written.after);
  }
}

StorageId Tape::storage_of(const at::Tensor& tensor) {
  const auto [entry, added] =
      ids_.try_emplace(tensor.storage().unsafeGetStorageImpl(), static_cast<StorageId>(storages_.size()));
  if (added) {
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    storages_.push_back({tensor.storage().getWeakStorageImpl(), kNone, version, current_version(version), {}});
  }
  return entry->second;
}

ValueId Tape::add_value(StorageId id, OpId producer, int64_t bytes) {
  Value v;
  v.storage = id;
  v.producer = producer;
  v.recorded_at = next_op();
  v.bytes = bytes;
  v.last_used = clock_;
  values_.push_back(std::move(v));
  storage(id).current = static_cast<ValueId>(values_.size() - 1);
  return storage(id).current;
}

ValueId Tape::find(const at::Tensor& tensor) const {
  const auto entry = ids_.find(tensor.storage().unsafeGetStorageImpl());
  return entry == ids_.end() ? kNone : storages_[static_cast<size_t>(entry->second)].current;
}

ValueId Tape::value_of(const at::Tensor& tensor) {
  const StorageId id = storage_of(tensor);
  StorageRecord& record = storage(id);
  if (record.current == kNone) {
    const ValueId v = add_value(id, kNone, storage_bytes(tensor));
    value(v).external = true;
    value(v).fleeting = !memory::is_owned(tensor.storage());
    if (tags_weights_ && tensor.requires_grad() && tensor.is_leaf()) memory::watch_leaf(tensor);
    return v;
  }
  if (!record.unchanged()) {
    // Written by somebody we did not see: the old content is gone, the new one has no recipe.
    let_go(record.current);
    record.expect_current();
    const bool external = value(record.current).external;
    value(add_value(id, kNone, storage_bytes(tensor))).external = external;
    dirty_ = true;
  }
  return storage(id).current;
}

void Tape::add_counter(const at::Tensor& tensor) {
  const auto entry = ids_.find(tensor.storage().unsafeGetStorageImpl());
  if (entry == ids_.end()) return;
  const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
  storage(entry->second).more.emplace_back(counter, current_version(counter));
}

ValueId Tape::add_fresh(const at::Tensor& tensor, OpId producer) {
  const ValueId id = add_value(storage_of(tensor), producer, storage_bytes(tensor));
  value(id).dtype = tensor.scalar_type();
  if (timeline) timeline->track(tensor.storage());
  return id;
}

ValueId Tape::add_written(const at::Tensor& tensor, OpId producer) {
  const StorageId id = storage_of(tensor);
  const ValueId before = storage(id).current;
  const ValueId after = add_value(id, producer, storage_bytes(tensor));
  value(after).keep = value(before).keep;
  value(after).dtype = value(before).dtype;
  value(after).external = value(before).external;
  unsettled_.push_back({id, before, after});
  if (value(before).handles > 0 && producer == kNone) hold(after, tensor.storage());  // they may follow
  return after;
}

void Tape::alias(const c10::Storage& storage, const c10::VariableVersion& version, ValueId v) {
  if (closed_) return;
  const auto id = static_cast<StorageId>(storages_.size());
  if (!ids_.try_emplace(storage.unsafeGetStorageImpl(), id).second) return;
  storages_.push_back({storage.getWeakStorageImpl(), v, version, current_version(version), {}});
}

void Tape::append(std::unique_ptr<Op> op) {
  for (const TensorArg& arg : op->args) {
    if (!arg.shape_only) value(arg.value).consumed = true;
  }
  ops_.push_back(std::move(op));
  ++since_collect_;
}

void Tape::make_root(ValueId id) {
  if (is_root(value(id))) return;
  becomes_source<Reach>(*this, id);
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  value(id).producer = kNone;
  if (timeline) timeline->became_root(id);
}

int32_t Tape::note_settings() {
  const Settings now = Settings::now();
  if (settings_.empty() || !(settings_.back() == now)) settings_.push_back(now);
  return static_cast<int32_t>(settings_.size() - 1);
}

void Tape::hold(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (v.held || put_away(id, storage)) return;
  keeps_any_ |= !is_root(v);
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  v.held = store::Content::as_it_is(storage);
  if (!v.marked) mark(id, storage, false);
  add_holder(id, storage);
  note_held(id);
}

bool Tape::put_away(ValueId id, const c10::Storage& storage) {
  Value& v = value(id);
  if (!v.kind) return false;
  const memory::OwnerScope owner(Owner::kept);
  const auto start = std::chrono::steady_clock::now();
  auto stored = v.kind->put(storage, v.dtype);
  const auto spent = std::chrono::steady_clock::now() - start;
  if (!stored) return false;
  if (const c10::Storage on_device = stored->on_device(); timeline && on_device) timeline->track(on_device);
  for (const StepCounters& one : counters) {
    count(one, &Counters::replay_nanoseconds, std::chrono::nanoseconds(spent).count());
  }
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  v.held = store::Content::stored(std::move(stored));
  note_kept(v.held.bytes());
  return true;
}

void Tape::hold_copy(ValueId id, c10::Storage copy) {
  let_go(id);
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  Value& v = value(id);
  v.held = store::Content::copy(std::move(copy));
  note_kept(v.bytes);
  memory::set_owner(v.held.storage(), Owner::kept);
  note_held(id);
}

void Tape::note_held(ValueId id) {
  if (budgeted_step) return;  // a budget's affair
  held_.push_back(id);
  held_since_balance_ += value(id).bytes;
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
  if (!v.held) return;
  const store::Content content = std::exchange(v.held, {});
  if (content.is_stored() || content.is_copy()) {
    if (timeline) timeline->copy_gone(id);
    note_kept(-content.bytes());
  } else {
    remove_holder(id, content.storage());
    if (v.external && !memory::is_owned(content.storage())) trash_.push_back(content.storage());  // a deleter not ours
  }
  ceases_source<Alive>(*this, id);
  ceases_source<Pending>(*this, id);
}

void Tape::lose(ValueId id) {
  let_go(id);
  dirty_ |= is_root(value(id)) && value(id).consumed;
}

void Tape::note_kept(int64_t delta) {
  kept_bytes_ += delta;
  if (delta < 0) return;
  for (const StepCounters& one : counters) count_most(one, &Counters::kept_bytes, kept_bytes_);
}

void Tape::nobody_alive(ValueId id) {
  if (!value(id).held) return;
  const bool root = is_root(value(id));
  if (counts_reach_ && !closed_ && root) return;  // what is evicted later may need it
  // While recording goes on, an op still to come may read a living tensor whose recipe needs this value, and only a root
  // cannot be had again. In a plain backward nothing is recorded, so memory comes first, and collect() afterwards sees to
  // such tensors.
  if (!closed_ && thread_phase() != Phase::backward && (root || !dropping_)) return;
  let_go(id);
  dirty_ |= !closed_ && thread_phase() == Phase::backward;
}

void Tape::nobody_reach(ValueId id) {
  const Value& v = value(id);
  if (closed_ || thread_phase() != Phase::backward || !v.held || !is_root(v) || v.held.is_shared()) return;
  let_go(id);
  dirty_ = true;
}

void Tape::nobody_pending(ValueId id) {
  if (value(id).uses == 0) value(id).rebuilt = c10::Storage();
}

void Tape::close() {
  begin_event();
  look_at_saved();
  measure();
  closed_ = true;
  ids_.clear();
  // Under a budget a later step may let go of what this one keeps.
  for (OpId id = 0; id < next_op(); ++id) {
    if (find_op(id) && op(id).alive == 0 && op(id).reach == 0) drop_op(id);
  }
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].alive == 0) let_go(static_cast<ValueId>(v));
  }
}

bool Tape::has_graph_to_come() const {
  const auto waits = [](const Handle* handle) { return !handle->unpacked(); };
  return std::any_of(handles_.begin(), handles_.end(), waits) || std::any_of(keepers_.begin(), keepers_.end(), waits);
}

void Tape::add_keeper(Handle& handle) {
  handle.set_position(keepers_.size());
  keepers_.push_back(&handle);
}

void Tape::remove_keeper(Handle& handle) {
  keepers_.back()->set_position(handle.position());
  std::swap(keepers_[handle.position()], keepers_.back());
  keepers_.pop_back();
}

void Tape::add_handle(Handle& handle) {
  handle.set_position(handles_.size());
  handles_.push_back(&handle);
  ++value(handle.value()).handles;
  change_need<Alive>(*this, handle.value(), 1);
  if (counts_reach_) change_need<Reach>(*this, handle.value(), 1);
  // A backward that makes a graph will hardly walk it before it ends: nothing is worth holding for it yet.
  for (const uint64_t round : rounds_) handle.consume(round);
}

void Tape::remove_handle(Handle& handle) {
  handles_.back()->set_position(handle.position());
  std::swap(handles_[handle.position()], handles_.back());
  handles_.pop_back();
  --value(handle.value()).handles;
  int32_t owed = 0;
  for (const uint64_t round : rounds_) owed += !handle.consumed_in(round);
  if (owed > 0) change_need<Pending>(*this, handle.value(), -owed);
  held_since_balance_ += value(handle.value()).bytes;
  change_need<Alive>(*this, handle.value(), -1);
  if (counts_reach_) change_need<Reach>(*this, handle.value(), -1);
}

void Tape::drop_handle(Handle& handle) {
  dropping_ = true;
  remove_handle(handle);
  dropping_ = false;
}

void Tape::join_round(uint64_t round) {
  if (round == 0 || std::find(rounds_.begin(), rounds_.end(), round) != rounds_.end()) return;
  rounds_.push_back(round);
  for (Handle* const handle : handles_) change_need<Pending>(*this, handle->value(), 1);
  remember_round(weak_from_this());
}

void Tape::end_round(uint64_t round) {
  const auto joined = std::find(rounds_.begin(), rounds_.end(), round);
  if (joined == rounds_.end()) return;
  for (Handle* const handle : handles_) {
    if (!handle->forget_round(round)) change_need<Pending>(*this, handle->value(), -1);
  }
  rounds_.erase(joined);
  if (rounds_.empty()) {
    for (const ValueId start : std::exchange(segment_starts, {})) value(start).segment_start = false;
    segment_bytes = saved_bytes = 0;
  }
}

c10::Storage Tape::living_storage(ValueId id) {
  const Value& v = value(id);
  StorageRecord& record = storage(v.storage);
  if (record.current != id || !record.unchanged()) return {};
  auto alive = record.pin.lock();
  return alive ? c10::Storage(std::move(alive)) : c10::Storage();
}

c10::Storage Tape::content(ValueId id, const Op* wanted_by) {
  const Value& v = value(id);
  if (v.rebuilt && wanted_by) return v.rebuilt;
  const c10::Storage& held = v.held.storage();
  if (held && held.unsafeGetStorageImpl() != storage(v.storage).pin._unsafe_get_target()) return held;
  // Somebody who unpacks gets what the tensor has become, as from plain autograd; an operator needs what it read.
  c10::Storage living = living_storage(id);
  if (living && wanted_by && !is_as_marked(id, living)) living = c10::Storage();
  if (!living && v.rebuilt) return v.rebuilt;
  if (living || (!held && (!is_root(v) || v.held))) return living;
  throw UsageError("[backward] op '" + (wanted_by ? wanted_by->name() : std::string("?")) +
                   "': a tensor it read was changed after forward (an in-place operator, an optimizer's step, a "
                   "pointer), so its result cannot be rebuilt. Change such tensors after backward, or change a clone.");
}

int64_t Tape::bytes() const {
  size_t total =
      sizeof(*this) + values_.capacity() * sizeof(Value) + handles_.size() * (sizeof(Handle) + sizeof(void*));
  total += storages_.capacity() * sizeof(StorageRecord) + storages_.size() * sizeof(c10::StorageImpl);
  total += ids_.size() * (sizeof(void*) * 3 + sizeof(StorageId)) + ids_.bucket_count() * sizeof(void*);
  total += ops_.capacity() * sizeof(void*);
  for (const auto& op : ops_) {
    if (!op) continue;
    total += sizeof(Op) + op->args.capacity() * sizeof(TensorArg) + op->stack.capacity() * sizeof(c10::IValue) +
             op->lists.capacity() * sizeof(ListArg) + op->fresh.capacity() * sizeof(FreshOutput);
    if (op->generator.defined()) total += generator_bytes();
  }
  return static_cast<int64_t>(total);
}

void Tape::measure() {
  const int64_t now = bytes();
  for (const StepCounters& one : counters) count_most(one, &Counters::tape_bytes, now);
}

}  // namespace retrace
