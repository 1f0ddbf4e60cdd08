// The tape: what was computed, from what, and who still needs it.
//
// SSA over storages. A value is one content of one storage; an operator that writes in place makes a new value of the
// same storage, a view makes none. An op refers to values by id and to nothing that keeps an activation alive.
//
// Two counts say who needs what, and all memory follows from them (see plan/simulate/demand.h):
//   alive    by handles autograd still holds: what must stay possible to rebuild. At 0 the tape lets go of a value.
//   pending  by unpacks the running backwards still owe: what is worth holding now. At 0 a rebuilt value is freed.
// And under a budget a third: reach, by handles, of what could come to be needed if what is held now were let go of.
//
// This is data and counts. Those who work on it are elsewhere: the recorder (record.cpp, arguments.h), those who notice
// writes (marks.h, writes.h), those who let go of content (sweep.h, balance.h, evict.h), and replay. Threads share a
// tape through a SharedTape (shared_tape.h), whose lock is the only way to get at one. Nothing here throws away content
// that could not be had again.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "memory/allocator.h"
#include "plan/graph/id_set.h"
#include "plan/simulate/demand.h"
#include "policy/between_backwards.h"
#include "policy/hold_if_better.h"
#include "policy/segments.h"
#include "tape/balance.h"
#include "tape/evict.h"
#include "tape/handle_table.h"
#include "tape/known_steps.h"
#include "tape/marks.h"
#include "tape/pressure.h"
#include "tape/settings.h"
#include "tape/storage_table.h"
#include "tape/sweep.h"
#include "tape/value.h"

namespace retrace {

class BudgetedStep;
class Timeline;

class Tape {
 public:
  // Runs what must run to have a value again, and returns the storage that holds it. This is all that the tape knows of
  // replay.
  using Rebuild = c10::Storage (*)(Tape& tape, ValueId value);

  Tape(bool tags_weights, Rebuild rebuild) : rebuild(rebuild), tags_weights(tags_weights) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // -- Values and ops --

  // The current value of a tensor's storage; a storage not seen before is external.
  ValueId value_of(const at::Tensor& tensor);
  ValueId find(const at::Tensor& tensor) const;  // none if not seen before
  // A new content of a storage: fresh; written over the current content; or found there, without a recipe.
  ValueId add_fresh(const at::Tensor& tensor, OpId producer);
  ValueId add_written(const at::Tensor& tensor, OpId producer);
  ValueId add_found(ValueId before);
  void append(std::unique_ptr<Op> op);
  void reserve(size_t ops, size_t values);  // memory for so many
  void make_root(ValueId value);            // its recipe can no longer be trusted
  void drop_op(OpId op);                    // nothing can ask for its results any more

  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  ValueId next_value() const { return static_cast<ValueId>(values_.size()); }
  bool is_root(const Value& v) const { return v.producer == kNone; }
  Op& op(OpId id) { return *ops_[static_cast<size_t>(id)]; }
  Op* find_op(OpId id) { return id == kNone ? nullptr : ops_[static_cast<size_t>(id)].get(); }  // null: dropped
  OpId next_op() const { return static_cast<OpId>(ops_.size()); }
  // Of those that were not dropped; of values that are held or rebuilt. See IdSet.
  OpId op_from(OpId id) const { return ops_left_.from(id); }
  OpId op_before(OpId id) const { return ops_left_.before(id); }
  ValueId present_from(ValueId id) {
    return present_.from(id, [&](ValueId v) { return value(v).held || value(v).rebuilt; });
  }
  StorageRecord& storage(StorageId id) { return storages[id]; }

  int32_t note_settings();  // of this thread now; returns a position for settings()
  const Settings& settings(int32_t position) const { return settings_[static_cast<size_t>(position)]; }

  // -- Content --

  void hold(ValueId value, const c10::Storage& storage);
  void hold_copy(ValueId value, c10::Storage copy);
  // Holds what was rebuilt for a node of autograd until that node has run and drops it, as the plain program does. What
  // the value was rebuilt from is then no longer needed for it.
  void hold_unpacked(ValueId value, const c10::Storage& storage);
  void hold_rebuilt(ValueId value);  // also after the backward that it was rebuilt for
  void was_rebuilt(ValueId value) { present_.insert(value); }
  bool put_away(ValueId value, const store::Kind& kind);  // if held as it is; false if this kind cannot hold it
  void let_go(ValueId value);
  // A handle keeps a tensor over this value's storage alive, so its bytes count as kept.
  void add_holder(ValueId value, const c10::Storage& storage);
  void remove_holder(ValueId value, const c10::Storage& storage);
  // The content is about to be overwritten: lets go of it. From now on it can only be rebuilt, if it has a producer.
  void lose(ValueId value);

  // The storage that holds a value now, without computing anything; null if none does. `wanted_by`: the op that reads
  // it; null if autograd unpacks it. Throws UsageError if a held value was changed by somebody else.
  c10::Storage content(ValueId value, const Op* wanted_by);
  c10::Storage living_storage(ValueId value) const;  // that it was recorded in, while somebody has that unchanged
  bool is_living(ValueId value) const;               // whether there is one
  bool is_original(ValueId value, const c10::Storage& storage) const {
    return storages[this->value(value).storage].is(storage);
  }
  bool has_trash() const { return !trash_.empty(); }
  std::vector<c10::Storage> take_trash() { return std::exchange(trash_, {}); }  // to destroy without the lock

  // -- Handles and backwards --

  void add_handle(Handle& handle);
  void remove_handle(Handle& handle);
  void drop_handle(Handle& handle);  // autograd let go of it
  // The recipe of a value that is being overwritten must stay. That is counted as a need only once somebody looks for
  // what can go: to count along a long recipe for every operator would take the square of its length.
  void need_recipe(ValueId value) { needed_recipes_.push_back({value}); }
  void recipe_not_needed(ValueId value);
  void count_needed_recipes();
  bool join_round(uint64_t round);  // false if it has joined before
  void end_round(uint64_t round, bool recorded);

  // -- Counts --

  void count_reach() { counts_reach_ = true; }
  void close();  // recording has ended; see sweep.h
  bool closed() const { return closed_; }
  int64_t kept_bytes() const { return kept_bytes_; }
  void measure();  // tells the counters how large the tape is

  void begin_event() { ++clock_; }
  int64_t clock() const { return clock_; }  // events
  void used(ValueId id) { value(id).last_used = clock_; }
  // How many ops had been recorded when the tensor was saved that backward asked for last; none in forward.
  OpId backward_at() const { return backward_at_; }
  void set_backward_at(OpId op) { backward_at_ = op; }
  uint32_t next_replay() { return ++replays_; }    // a mark for the ops of one replay
  uint32_t next_pricing() { return ++pricings_; }  // a mark for the ops and values that one walk has come to

  // For plan/simulate/demand.h.
  demand::Work& work(Alive) { return alive_work_; }
  demand::Work& work(Pending) { return pending_work_; }
  demand::Work& work(Reach) { return reach_work_; }
  void keeper_gone(ValueId value);  // a handle that kept a root has ended; the tape holds it too
  void nobody_alive(ValueId value);
  void nobody_pending(ValueId value);
  void nobody_reach(ValueId value);

  // -- Parts --

  StorageTable storages;
  GeometryTable geometries;
  HandleTable handles;
  Marking marking;
  Sweeping sweeping;
  std::pair<Marks, Marks> marks;  // of one sweep
  HoldIfBetter hold_if_better;
  Pressure pressure;
  EvictionMemory eviction;
  memory::Leaves leaves;               // of a session's step
  std::vector<StepCounters> counters;  // of everyone who recorded here
  Segmenting segmenting;
  BetweenBackwards between_backwards;
  std::shared_ptr<Timeline> timeline;           // of a session's step, else null
  std::shared_ptr<BudgetedStep> budgeted_step;  // of a step under a budget, else null
  std::shared_ptr<BudgetedStep> ended_step;     // the same, after its end
  std::shared_ptr<KnownSteps> known;            // of a session, else null
  // A storage was written, and its version counter will rise only later: settled at the next event.
  struct Written {
    ValueId before, after;
  };
  std::vector<Written> unsettled;
  const Rebuild rebuild;
  const bool tags_weights;

 private:
  ValueId add_value(StorageId storage, OpId producer, int64_t bytes);
  std::unique_ptr<const store::Stored> store(const Value& v, const store::Kind& kind, const c10::Storage& content);
  bool handles_may_follow_to(ValueId id) const;
  void becomes_held(ValueId id);
  void note_kept(int64_t delta);
  void note_held(ValueId value);
  int64_t bytes() const;

  std::vector<std::unique_ptr<Op>> ops_;
  size_t op_bytes_ = 0;  // of ops_ and what they refer to
  IdSet ops_left_;
  std::vector<Value> values_;
  IdSet present_;
  std::vector<Settings> settings_;
  std::vector<c10::Storage> trash_;
  struct NeededRecipe {
    ValueId value;
    bool counted = false;
  };
  std::vector<NeededRecipe> needed_recipes_;
  demand::Work alive_work_, pending_work_, reach_work_;
  bool counts_reach_ = false;
  bool dropping_ = false;  // a handle, right now
  bool closed_ = false;
  uint32_t replays_ = 0;
  uint32_t pricings_ = 0;
  int64_t clock_ = 0;
  OpId backward_at_ = kNone;
  int64_t kept_bytes_ = 0;
};

}  // namespace retrace
