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
// One lock per tape; replay runs under it. Nothing here throws away content that could not be had again.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/simulate/demand.h"
#include "store/content.h"
#include "tape/counters.h"
#include "tape/geometry.h"
#include "tape/known_steps.h"
#include "tape/operators.h"
#include "tape/settings.h"

namespace retrace {

using ValueId = int32_t;
using OpId = int32_t;
using StorageId = int32_t;
inline constexpr int32_t kNone = -1;

class Handle;
class BudgetedStep;
class Timeline;

// An operator's tensor argument: which content it saw, and through which view.
struct TensorArg {
  ValueId value = kNone;
  ValueId becomes = kNone;  // the value it is after the operator wrote it in place
  int32_t slot = 0;         // position on the operator's stack
  int32_t element = kNone;  // position in a tensor list, or none
  bool shape_only = false;  // the operator does not look at the content
  Geometry geometry;
};

struct ListArg {
  int32_t slot = 0;
  int32_t size = 0;
  bool optionals = false;
};

struct FreshOutput {
  int32_t position = 0;  // among the tensors the operator returned, lists flattened
  ValueId value = kNone;
};

// One recorded operator: enough to run it again.
struct Op {
  explicit Op(const c10::OperatorHandle& h, const OpTraits& t) : handle(h), traits(&t) {}

  c10::OperatorHandle handle;
  const OpTraits* traits;
  c10::DispatchKeySet keys;        // what the dispatcher was to go on with
  int32_t settings = kNone;        // the tape's, as it found them
  std::vector<c10::IValue> stack;  // arguments, tensors blanked
  std::vector<TensorArg> args;
  std::vector<ListArg> lists;
  std::vector<FreshOutput> fresh;
  at::Generator generator;  // in the state it was drawn from; undefined if it was not
  float seconds = 0;
  float shortcut_seconds = 0;  // of making its first result from the others; 0: it cannot be
  int32_t timeline_id = kNone;
  StepCounters counters;

  int32_t alive = 0;
  int32_t pending = 0;
  int32_t reach = 0;
  uint32_t visited = 0;  // the last replay that planned it
  uint32_t priced = 0;   // the last time somebody asked what rebuilding would take

  std::string name() const { return traits->name.name; }
};

// One content of one storage.
struct Value {
  StorageId storage = kNone;
  OpId producer = kNone;     // none: a root. It cannot be rebuilt, only held
  OpId recorded_at = kNone;  // how many ops had been recorded: orders values in time, roots included
  int64_t bytes = 0;
  at::ScalarType dtype = at::kFloat;
  bool external = false;       // came from outside: a parameter, an input, a buffer
  bool keep = false;           // the policy wants it held, and every later content of its storage with it
  bool consumed = false;       // an op on the tape reads it
  bool segment_start = false;  // a rebuild in segments stopped here
  bool weighed = false;        // a root: against what it lets be forgotten
  bool scratch = false;        // not the same bit for bit when rebuilt, and need not be
  bool unwritten = false;      // part of it is memory that no recorded operator has written
  int64_t written_begin = 0, written_end = 0;  // the part that was, while `unwritten`

  // Its content as its operator left it, or as it was first seen: to notice writes that LibTorch does not count.
  bool marked = false;
  bool marked_whole = false;  // all of its bytes, not a sample
  bool dense = false;         // an operator wrote every byte of its storage
  bool fleeting = false;      // may be written without notice: what reads it is not run again
  uint64_t mark = 0;
  uint64_t first_look = 0;  // a place, see KnownSteps
  int32_t looks = 0;

  const store::Kind* kind = nullptr;                               // how to hold it; null: as it is
  store::Content held;                                             // while alive: roots, kept values, cut vertices
  c10::Storage rebuilt;                                            // strong while pending
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> given;  // to autograd, which may still have it
  int64_t last_used = 0;                                           // by the tape's clock
  int32_t alive = 0;
  int32_t pending = 0;
  int32_t reach = 0;    // counted only under a budget
  int32_t uses = 0;     // within the running replay
  int32_t handles = 0;  // that stand for it
  int32_t holders = 0;  // of its bytes, for the books: `held` and handles
  uint32_t priced = 0;  // the last time somebody summed over values
};
inline bool is_held(const Value& v) { return static_cast<bool>(v.held); }

struct StorageRecord {
  c10::weak_intrusive_ptr<c10::StorageImpl> pin;  // so that its address is never mistaken for its successor's
  ValueId current = kNone;
  c10::VariableVersion version;
  uint32_t expected = 0;  // what `version` says while nobody wrote behind our back
  // Of tensors over the same storage that count for themselves (_unsafe_view, unsafe_split), with what is expected.
  std::vector<std::pair<c10::VariableVersion, uint32_t>> more;

  bool unchanged() const;
  void expect_current();
};

// Thrown through an operator's kernel by an allocation, and caught by replay,
// which then tries again with less at hand.
struct OverBudget : std::exception {
  const char* what() const noexcept override { return "out of room"; }
};

class Tape : public std::enable_shared_from_this<Tape> {
 public:
  explicit Tape(bool tags_weights) : tags_weights_(tags_weights) {}

  // Locks the tape; what was let go of meanwhile is destroyed after unlocking, since it may run foreign deleters.
  class Lock {
   public:
    explicit Lock(Tape& tape);
    Lock(Tape& tape, std::try_to_lock_t);
    ~Lock();
    bool has_it() const { return tape_ != nullptr; }
    static bool held_by_this_thread();  // one of any tape
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Tape* tape_;
  };

  // While one lives, a shortage in which nothing can be let go of throws OverBudget instead of breaking a budget.
  class Strict {
   public:
    explicit Strict(Tape& tape) : tape_(tape), before_(tape.strict.exchange(true)) {}
    ~Strict() { tape_.strict = before_; }
    Strict(const Strict&) = delete;
    Strict& operator=(const Strict&) = delete;

   private:
    Tape& tape_;
    bool before_;
  };

  // -- Recording; the lock is held by the caller of everything below --

  // Every event begins here: learns the versions in-place operators left, and tidies up after a backward.
  void begin_event();

  // The current value of a tensor's storage; a storage not seen before is foreign.
  ValueId value_of(const at::Tensor& tensor);
  ValueId find(const at::Tensor& tensor) const;  // none if not seen before
  // `tensor` shares a known storage but not its version counter.
  void add_counter(const at::Tensor& tensor);

  // A new content for a storage: fresh, or written over the current one.
  ValueId add_fresh(const at::Tensor& tensor, OpId producer);
  ValueId add_written(const at::Tensor& tensor, OpId producer);
  OpId next_op() const { return static_cast<OpId>(ops_.size()); }
  void append(std::unique_ptr<Op> op);

  // A storage that replay made for `value` is that value, for operators recorded during a backward.
  void alias(const c10::Storage& storage, const c10::VariableVersion& version, ValueId value);

  void make_root(ValueId value);  // its recipe can no longer be trusted

  // A recipe is trusted only while the content is what its operator left there. So content is marked when it is made, and
  // whoever is about to read or save a tensor looks: what a pointer wrote meanwhile is a value without a recipe.
  ValueId look_at(const at::Tensor& tensor);
  void look_at_saved();
  void mark(ValueId value, const c10::Storage& storage, bool whole);
  bool is_as_marked(ValueId value, const c10::Storage& storage) const;
  bool verifies() const { return verifies_; }  // this part of the step is new, or follows a new plan
  void set_verifies(bool on) { verifies_ = on; }
  void begin_places(uint64_t prefix_hash);  // those that follow an operator

  int32_t note_settings();  // as they are now; a position in settings()
  const Settings& settings(int32_t position) const { return settings_[static_cast<size_t>(position)]; }

  void hold(ValueId value, const c10::Storage& storage);
  void hold_copy(ValueId value, c10::Storage copy);
  void let_go(ValueId value);
  // A handle keeps a tensor over this value's storage alive; so it counts as kept.
  void add_holder(ValueId value, const c10::Storage& storage);
  void remove_holder(ValueId value, const c10::Storage& storage);
  // The content is about to be overwritten: let go of it, and expect it from its producer, if it has one, from now on.
  void lose(ValueId value);
  // `value` is a root about to be overwritten and too large to copy: whatever needs it is rebuilt now and held.
  void secure_dependents(ValueId value);

  // Whether some handle stands for a value that would have to be rebuilt.
  bool has_handles() const { return !handles_.empty(); }
  bool has_graph_to_come() const;  // saved, and no backward has asked for it yet

  // Drops ops that nothing can ask for any more.
  void collect();
  // Of what the tape alone holds, lets go of what no handle could come to need, and of roots that are larger than what they
  // let be forgotten (that is then held for good). Returns whether anything was freed.
  bool let_go_idle();
  bool may_have_idle() const;
  // The last resort: all roots that nothing forgotten needs. What could be rebuilt from them is then held for good, and the
  // program takes what it takes without us.
  bool let_go_roots();
  // Holding what autograd did not save pays only while more than that is forgotten: else what is held goes. Called before
  // an allocation that would raise the step's peak, so that no policy takes more than the plain program.
  void balance();
  // Whether to hold `id`, which autograd is about to save, instead of what the policy keeps for its sake alone and autograd
  // did not save: it takes no more bytes, and nothing has to be rebuilt. If so it is held, and that is let go of.
  void hold_if_no_larger(ValueId id, const c10::Storage& storage);
  // How much more plain autograd would have live now: what is forgotten, less what is held or rebuilt and was not saved.
  int64_t below_plain_bytes();
  // Whether balance() might find something.
  bool may_be_out_of_balance() const { return held_since_balance_ > slack_bytes_; }

  void count_reach() { counts_reach_ = true; }
  // Recording has ended: what no handle needs is dropped at once.
  void close();

  // -- Handles --
  void add_handle(Handle& handle);
  void remove_handle(Handle& handle);
  void drop_handle(Handle& handle);  // autograd let go of it
  // One that keeps its tensor itself: only the timeline must know what that has become.
  void add_keeper(Handle& handle);
  void remove_keeper(Handle& handle);

  // -- Backward --
  at::Tensor unpack(Handle& handle);
  void end_round(uint64_t round);

  // -- Content --
  // The storage that holds a value now, without computing anything; null if none does. Throws UsageError if a held one
  // was changed by somebody else.
  c10::Storage content(ValueId value, const Op* wanted_by);
  bool is_root(const Value& v) const { return v.producer == kNone; }

  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Op& op(OpId id) { return *ops_[static_cast<size_t>(id)]; }
  Op* find_op(OpId id) { return id == kNone ? nullptr : ops_[static_cast<size_t>(id)].get(); }
  StorageRecord& storage(StorageId id) { return storages_[static_cast<size_t>(id)]; }

  int64_t bytes() const;  // of the tape itself
  void note_kept(int64_t delta);
  void note_held(ValueId value);
  void measure();  // tells the counters how large the tape is
  // Of what the tape holds or has rebuilt, the value that is cheapest to do without.
  struct Evictable {
    ValueId value = kNone;  // none: nothing can go
    double score = 0;       // seconds per byte and time since it was last used
  };
  Evictable cheapest();
  int64_t evict(ValueId value);  // if it can go; returns the bytes freed

  void used(ValueId id) { value(id).last_used = clock_; }

  bool closed() const { return closed_; }
  bool tags_weights() const { return tags_weights_; }

  std::vector<StepCounters> counters;  // of everyone who recorded here
  std::vector<ValueId> cuts;           // cut vertices in order, if long rebuilds go in segments

  // Of rebuilds in segments.
  bool rebuilds_in_segments = false;
  bool keeps_cuts = false;              // a policy does: every n-th, so that a rebuild crosses fewer than n
  std::vector<ValueId> segment_starts;  // in the running backward
  int64_t segment_bytes = 0;            // of the fullest one, as predicted: what takes no more is not cut again
  int64_t saved_bytes = 0;              // when the running backward began its first rebuild

  std::shared_ptr<Timeline> timeline;           // of a session's step, else null
  std::shared_ptr<BudgetedStep> budgeted_step;  // of a step under a budget, else null
  std::shared_ptr<KnownSteps> known;            // of a session, else null
  bool may_forget = false;                      // some scope's policy may: content is watched
  std::atomic<bool> strict = false;             // see Strict
  bool lossy = false;  // a plan that held something in fewer bits was followed: nothing to compare

  // For plan/simulate/demand.h.
  demand::Work& work(Alive) { return alive_work_; }
  demand::Work& work(Pending) { return pending_work_; }
  demand::Work& work(Reach) { return reach_work_; }
  void nobody_alive(ValueId value);
  void nobody_pending(ValueId value);
  void nobody_reach(ValueId value);

 private:
  friend class Replay;

  struct Written {
    StorageId storage;
    ValueId before, after;
  };

  StorageId storage_of(const at::Tensor& tensor);
  ValueId found_written(ValueId value, const c10::Storage& storage);
  void handles_follow(const Written& written);
  void keepers_follow(const Written& written);
  ValueId add_value(StorageId storage, OpId producer, int64_t bytes);
  c10::Storage living_storage(ValueId id);
  void hold_rebuilt(ValueId id);
  bool is_idle(ValueId id) const;
  bool let_go_unpaying_roots();
  std::vector<ValueId> nearest_sources(ValueId id);
  void drop_lost_ops();
  int64_t forgotten_bytes();
  void join_round(uint64_t round);
  void verify(const Handle& handle, const c10::Storage& storage, const at::Tensor& tensor);
  void drop_op(OpId id);
  bool put_away(ValueId id, const c10::Storage& storage);
  bool is_at_hand(ValueId id);
  std::optional<double> seconds_to_rebuild(ValueId id);
  double replay_seconds(const Op& op, ValueId wanted);
  int64_t evictable_bytes(ValueId id) const;
  Evictable any_evictable();
  void hold_roots_of(ValueId id);

  std::recursive_mutex mutex_;
  int lock_depth_ = 0;
  std::vector<c10::Storage> trash_;

  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Value> values_;
  std::vector<StorageRecord> storages_;
  std::unordered_map<const c10::StorageImpl*, StorageId> ids_;
  std::vector<Written> unsettled_;  // by the last op: their version is counted only afterwards
  std::vector<Handle*> handles_;
  std::vector<Handle*> keepers_;
  std::vector<uint64_t> rounds_;  // backwards that have unpacked here and not ended
  OpId idle_looked_for_ = kNone;  // when so many ops had been recorded
  size_t since_collect_ = 0;      // ops appended
  size_t since_dirty_ = 0;        // events in backward
  size_t surviving_ops_ = 0;      // of the last collect(), so that collecting stays cheap
  bool counts_reach_ = false;
  bool dropping_ = false;                       // a handle
  std::atomic<int64_t> held_since_balance_{0};  // bytes; at most so much worse than it was then
  std::atomic<int64_t> slack_bytes_{0};         // forgotten less held in vain, when balance() last looked
  std::vector<ValueId> held_;                   // since then or still, for balance()
  std::unordered_map<ValueId, std::vector<ValueId>> held_instead_;  // of a value that a policy would keep
  bool keeps_any_ = false;                                          // that could be rebuilt
  bool dirty_ = false;  // a backward let go of values while recording is open
  bool closed_ = false;
  bool verifies_ = false;
  uint64_t place_ = 0;
  std::vector<Settings> settings_;
  const bool tags_weights_;
  demand::Work alive_work_, pending_work_, reach_work_;
  uint32_t replays_ = 0;
  uint32_t pricings_ = 0;
  int64_t clock_ = 0;  // events
  int64_t kept_bytes_ = 0;
};

}  // namespace retrace
