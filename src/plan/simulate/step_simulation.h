// One step, event by event, by the runtime's own rules: the inside of the simulator.
//
// Who needs what, what a rebuild runs again and lets go of, what is swept and what is evicted are rules that the
// runtime shares (demand.h, rebuilding.h, sweep.h, eviction_rules.h). What is written here alone is when something is
// held, as src/tape/tape.cpp and the recorder do it. A change there belongs here too; tests/session/predict_test.cpp
// compares the two.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/id_set.h"
#include "plan/simulate/demand.h"
#include "plan/simulate/effort.h"
#include "plan/simulate/history.h"
#include "plan/simulate/simulator.h"
#include "plan/simulate/step_facts.h"
#include "plan/simulate/step_rules.h"

namespace retrace::plan {

struct SimValue {
  OpId producer = kNone;
  int32_t alive = 0, pending = 0, reach = 0, uses = 0;
  int32_t rebuilt = 0;  // a buffer, or 0
  int16_t way = kNone;  // in which it is held
};
inline bool is_held(const SimValue& v) { return v.way != kNone; }
// In place of a way: it was rebuilt for a node of autograd that drops it as soon as it has run, and is held until then.
inline constexpr int16_t kUnpacked = -2;

struct SimOp {
  std::span<const Arg> args;
  int32_t alive = 0, pending = 0, reach = 0;
};

// Memory that lives while somebody refers to it.
struct Buffer {
  int64_t bytes = 0;
  int32_t references = 0;
  ValueId value = kNone;
  bool rebuilt = false;
};

// The state between two events. What follows depends on nothing else.
struct SimulationState {
  size_t next_event = 0;
  bool in_backward = false;
  bool in_recorded_backward = false;  // whose operators are recorded too
  size_t backward_end = 0;            // of the open one, an event
  std::vector<SimValue> values;
  std::vector<SimOp> ops;
  IdSet ops_left;               // that a tape has recorded, and not let go of
  IdSet present;                // values that are held or rebuilt
  std::vector<Buffer> buffers;  // 0 is none, then one per storage, then those of rebuilt values
  std::vector<int32_t> free_buffers;
  std::vector<ValueId> current;   // by storage: whose content it has
  std::vector<char> consumed;     // by handle: unpacked (1), or gone (2)
  std::vector<int32_t> in_hand;   // by handle: the buffer its node has unpacked
  std::vector<HandleId> saved;    // that the next backward may ask for; of several, all that are not gone
  std::vector<HandleId> passing;  // unpacked by this backward, and not dropped by it
  int64_t live = 0;               // bytes of the tape's values, held_bytes and rebuilt_bytes included
  int64_t held_bytes = 0, rebuilt_bytes = 0;
  double replay_seconds = 0;
  int64_t ops_replayed = 0;
};

// By event, the most that was live: before the event changed what is held, and after.
struct Peaks {
  std::vector<int64_t> early, late;
};

// Whoever lets go of values before a budget would be broken.
class MakesSpace {
 public:
  virtual ~MakesSpace() = default;
  virtual bool let_go_of_one() = 0;  // false: there is nothing left to let go of
};

class StepSimulation {
 public:
  // Both must outlive it. The plain program: what autograd saves is held until it is dropped, and nothing can be
  // rebuilt.
  explicit StepSimulation(const Graph& graph, Effort* effort = nullptr, bool is_plain = false);

  // When to stop early.
  struct Limits {
    int64_t bytes = INT64_MAX;  // of the peak
    double seconds = 1e300;     // of replay
    double cost = 1e300;        // seconds of replay, and of the bytes above a budget at this price:
    Price price = {};
  };

  void begin(const Choices& choices, const Limits& limits);     // `choices` must last
  void follow(StepRules* rules) { rules_ = rules; }             // as well as the choices; in whole runs only
  void ask_for_space(MakesSpace* from, int64_t budget_bytes) {  // in whole runs only
    makes_space_ = from;
    space_bytes_ = budget_bytes;
  }
  void limit(const Limits& limits) { limits_ = limits; }
  void run_until(size_t end);
  void begin_backward();
  Outcome finish();

  // Resumes from a state of a whole run, which change_choice() may change; recount() counts what was before it.
  void resume_from(const SimulationState& state, const Choices& choices, const Limits& limits);
  void set_peaks(const Peaks& peaks) { peaks_ = peaks; }
  void recount();
  void finish_as(const SimulationState& state, const Outcome& whole);  // as that run did from then on

  // Changes the state as if forward had followed the choice that a value has now. Before anything touches the value.
  void change_choice(ValueId id);

  const Graph& graph() const { return graph_; }
  const StepFacts& facts() const { return facts_; }
  const SimulationState& now() const { return now_; }
  ValueId present_from(ValueId id) {  // the first value at or after `id` that is held or rebuilt, or none
    const auto is_present = [&](ValueId v) { return is_held(now_.values[at(v)]) || now_.values[at(v)].rebuilt != 0; };
    return now_.present.from(id, is_present);
  }
  bool stopped() const { return stopped_; }
  const Peaks& peaks() const { return peaks_; }
  std::vector<Simulator::Live> live_at_next_peak();  // runs the next event; what was live at its highest point

  Outcome outcome;
  bool wants_event_peaks = false;  // and peaks()
  History* history = nullptr;      // to be written, if any

  // Records by value and by op the first event that touched it; or finds the earliest such event of what is touched
  // now.
  enum class Touches : uint8_t { ignore, record, compare };
  void track_touches(Touches touches);
  void clear_touches();
  size_t first_touch() const { return first_touch_; }

  // For demand.h.
  SimValue& value(ValueId id) {
    ++looks_;
    if (touches_ != Touches::ignore) touch(touched_values_[at(id)]);
    return now_.values[at(id)];
  }
  SimOp& op(OpId id) {
    if (touches_ != Touches::ignore) touch(touched_ops_[at(id)]);
    return now_.ops[at(id)];
  }
  demand::Work& work(Alive) { return alive_work_; }
  demand::Work& work(Pending) { return pending_work_; }
  demand::Work& work(Reach) { return reach_work_; }
  void nobody_alive(ValueId id) {
    if (facts_.is_plain) return stop_holding(id);
    if (rules_ != nullptr) return rules_->nobody_alive(id);
    const auto is_root = [&] { return value(id).producer == kNone; };
    if (goes_if_not_alive(in_plain_backward(), dropping_, /*may_evict=*/true, is_root)) stop_holding(id);
  }
  void nobody_reach(ValueId id) {
    if (in_plain_backward() && value(id).producer == kNone && released(id)) stop_holding(id);
  }
  void nobody_pending(ValueId id) {
    if (value(id).uses == 0 && value(id).way != kUnpacked) free_rebuilt(id);
  }

  // For StepRules and MakesSpace: what they may do, and look at.
  void hold(ValueId id, int way);
  void hold_rebuilt(ValueId id);
  void hold_in_hand(ValueId id);  // if a node of a retained graph has it, rebuilt
  void stop_holding(ValueId id);
  void forget_rebuilt(ValueId id);
  void add_held(int64_t bytes);        // of copies, which are no value's own
  bool has_storage(ValueId id) const;  // with this content or a later one
  bool is_living(ValueId id) const;    // with this content
  bool is_shared(ValueId id) const;    // somebody beside the tape has it
  bool is_dropping() const { return dropping_; }
  bool keeps_root(HandleId handle) const { return saved_root_[at(handle)] != 0; }
  int64_t live_bytes() const { return other_ + now_.live; }
  int64_t bytes_in_passing() const { return passing_bytes_; }  // of live_bytes(): what a replayed operator writes on
  // Of what the running rebuild makes up to op `until`, only the values of `but`, sorted, stay.
  void pass_through(OpId until, std::vector<ValueId> but);

 private:
  int wanted_way(ValueId id) const;  // in which the choice holds it, or none
  void touch(size_t& first) {
    if (touches_ == Touches::record) {
      first = std::min(first, now_.next_event);
    } else {
      first_touch_ = std::min(first_touch_, first);
    }
  }
  double excess() const;
  bool too_expensive() const;
  void count_peaks(size_t end);
  void apply(const Event& event);
  void add_live_since(size_t event, int64_t bytes);

  void note_peak(int64_t extra);
  Owners owners(int64_t extra) const;
  void list_live();
  void note_history(int64_t extra);
  void note_fate(ValueId id);
  static int32_t storage_buffer(int32_t storage) { return storage + 1; }
  int32_t storage(ValueId id) const { return facts_.storage(id); }
  bool released(ValueId id) const { return storage(id) != kNone && released_[at(storage(id))] <= now_.next_event; }
  Buffer& buffer(int32_t id) { return now_.buffers[at(id)]; }
  void reference(int32_t buffer);
  void unreference(int32_t buffer);
  int32_t new_buffer(ValueId id);
  void spend(double seconds);

  void run_forward(OpId id);
  void begin_storage(ValueId id);
  void overwrite(const Arg& arg);
  void hold_if_wanted(ValueId id);
  void save(HandleId handle);
  void release_storage(ValueId id);

  bool in_plain_backward() const { return now_.in_backward && !now_.in_recorded_backward; }
  bool ends_backwards() const { return facts_.has_several_backwards || rules_ != nullptr; }
  void end_backward();  // another may follow
  void sweep();
  class Swept;
  void unpack(HandleId handle);
  void pass(HandleId handle);
  void hold_unpacked(HandleId handle);
  void take_from_hand(HandleId handle);  // backward lets go of what it has unpacked
  void drop(HandleId handle);
  int32_t content(ValueId id);
  bool is_available(ValueId id);
  int32_t obtain(ValueId id);
  int32_t materialize(ValueId target);
  class Rules;
  void end_rebuild();
  void replay(OpId id);
  void note_peak_of_call(int64_t working_bytes);
  int32_t scratch_for(OpId id, ValueId content);
  void take_rebuilt(ValueId id, int32_t buffer);
  void used(ValueId id);
  void free_rebuilt(ValueId id);

  const StepFacts facts_;
  const Graph& graph_;
  Effort* const effort_;   // may be null
  bool dropping_ = false;  // a saved tensor
  std::vector<SimValue> first_values_;
  std::vector<SimOp> first_ops_;
  std::vector<size_t> offered_;   // by value: the event in which forward first asks whether to hold it; none: the end
  std::vector<size_t> released_;  // by storage: the event; none yet: the end

  SimulationState now_;
  Peaks peaks_;
  const Choices* choices_ = nullptr;
  Limits limits_;
  StepRules* rules_ = nullptr;  // none: choices alone
  MakesSpace* makes_space_ = nullptr;
  int64_t space_bytes_ = INT64_MAX;
  OpId passes_until_ = kNone;
  std::vector<ValueId> passes_but_;
  std::vector<char> saved_root_;    // by handle: it keeps the value itself
  std::vector<uint32_t> visited_;   // by op: the last replay that it was part of
  std::vector<OpId> order_;         // of one replay
  std::vector<ValueId> stack_;      // likewise
  std::pair<Marks, Marks> marks_;   // of one sweep
  std::vector<int32_t> scratch_;    // of one op
  int64_t passing_bytes_ = 0;       // of that
  std::vector<int32_t> arguments_;  // buffers that one op reads, for the rules
  demand::Work alive_work_, pending_work_, reach_work_;
  uint32_t replays_ = 0;
  int64_t other_ = 0;
  int64_t event_peak_ = 0, early_peak_ = 0;
  int64_t excess_ = 0;  // of all events so far
  int64_t looks_ = 0;   // at values, since they were last counted as effort: a chain of needs takes many
  bool stopped_ = false, listing_ = false;
  std::vector<Simulator::Live> seen_;

  Touches touches_ = Touches::ignore;
  std::vector<size_t> touched_values_, touched_ops_;
  size_t first_touch_ = 0;
};

}  // namespace retrace::plan
