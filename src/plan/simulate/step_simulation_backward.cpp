// The part of StepSimulation that mirrors backward: what is unpacked, run again, held meanwhile and freed.
#include <algorithm>
#include <utility>

#include "plan/simulate/rebuilding.h"
#include "plan/simulate/step_simulation.h"
#include "plan/simulate/sweep.h"

namespace retrace::plan {

constexpr char kGone = 2;

void StepSimulation::begin_backward() {
  const Backward* const known = backward_at(graph_, static_cast<int32_t>(now_.next_event));
  now_.in_backward = true;
  now_.in_recorded_backward = known && facts_.has_several_backwards && known->records;
  now_.backward_end = known ? at(known->end) : graph_.events.size();
  for (const HandleId h : now_.saved) {
    if (now_.consumed[at(h)] == 0) change_need<Pending>(*this, graph_.handles[at(h)], 1);
  }
  if (!ends_backwards()) now_.saved.clear();
  if (facts_.sweeps && rules_ == nullptr && in_plain_backward()) sweep();
}

// The step as sweep.h sees it.
class StepSimulation::Swept {
 public:
  explicit Swept(StepSimulation& step) : step_(step) {}

  const SimValue& value(ValueId id) const { return step_.now_.values[at(id)]; }
  const SimOp& op(OpId id) const { return step_.now_.ops[at(id)]; }
  const Op& recorded(OpId id) const { return step_.graph_.ops[at(id)]; }

  OpId op_count() const { return static_cast<OpId>(step_.graph_.ops.size()); }
  OpId op_before(OpId id) const { return step_.now_.ops_left.before(id); }
  void drop_op(OpId id) { step_.now_.ops_left.erase(id); }

  ValueId value_count() const { return static_cast<ValueId>(step_.now_.values.size()); }
  ValueId present_from(ValueId id) { return step_.present_from(id); }
  bool is_held(ValueId id) const { return plan::is_held(value(id)); }
  bool is_shared(ValueId id) const { return step_.is_shared(id); }
  bool is_living(ValueId id) const { return step_.is_living(id); }
  void let_go(ValueId id) { step_.stop_holding(id); }
  std::pair<Marks, Marks>& marks() { return step_.marks_; }

 private:
  StepSimulation& step_;
};

// A rebuild as rebuilding.h sees it.
class StepSimulation::Rules {
 public:
  explicit Rules(StepSimulation& step) : step_(step) {}

  SimValue& value(ValueId id) const { return step_.value(id); }
  SimOp& op(OpId id) const { return step_.op(id); }
  const Op& recorded(OpId id) const { return step_.graph_.ops[at(id)]; }

  static bool has_op(OpId) { return true; }
  void mark(OpId id) { step_.visited_[at(id)] = step_.replays_; }
  bool is_planned(OpId id) const { return id != kNone && step_.visited_[at(id)] == step_.replays_; }
  OpId until() const { return step_.passes_until_; }
  const std::vector<ValueId>& kept_until() const { return step_.passes_but_; }

  void use(ValueId id) { ++value(id).uses; }
  int64_t bytes(ValueId id) const { return step_.graph_.values[at(id)].bytes; }
  bool has_content(ValueId id, OpId) const { return step_.content(id) != 0; }
  bool is_available(ValueId id, OpId) const { return step_.is_available(id); }
  bool is_ours_alone(ValueId id) const {
    return value(id).rebuilt != 0 && !is_held(value(id)) && step_.buffer(value(id).rebuilt).references == 1;
  }
  bool is_rebuilt_each_time(ValueId id) const { return (*step_.choices_)[at(id)] == Choice::rebuild_each_time(); }
  void free(ValueId id) {
    if (value(id).way != kUnpacked) step_.forget_rebuilt(id);
  }

 private:
  StepSimulation& step_;
};

// What earlier graphs left, and nothing needs any more.
void StepSimulation::sweep() {
  Swept swept(*this);
  sweep::let_go_unneeded(swept);
}

// What it did not ask for, the next one may.
void StepSimulation::end_backward() {
  for (const HandleId h : std::exchange(now_.passing, {})) take_from_hand(h);
  if (rules_ != nullptr) rules_->backward_ends(now_.in_recorded_backward);
  now_.in_backward = now_.in_recorded_backward = false;
  std::erase_if(now_.saved, [&](HandleId h) { return now_.consumed[at(h)] == kGone; });
  for (const HandleId h : now_.saved) {
    if (std::exchange(now_.consumed[at(h)], 0) == 0) change_need<Pending>(*this, graph_.handles[at(h)], -1);
  }
}

void StepSimulation::unpack(HandleId handle) {
  if (!now_.in_backward) begin_backward();
  const auto h = at(handle);
  const ValueId id = graph_.handles[h];
  if (rules_ != nullptr) rules_->unpacking(handle);
  if (ends_backwards()) pass(handle);
  if (history != nullptr) note_fate(id);
  const int32_t its = materialize(id);
  if (its != 0 && now_.in_hand[h] == 0) {
    reference(its);
    now_.in_hand[h] = its;
    if (rules_ != nullptr) rules_->in_hand(id, 1);
  }
  used(id);
  if (rules_ != nullptr) end_rebuild();
  if (rules_ != nullptr && saved_root_[h] == 0) rules_->unpacked(id);
  if (rules_ != nullptr) hold_unpacked(handle);
  if (now_.consumed[h] != 0) return;
  now_.consumed[h] = 1;
  change_need<Pending>(*this, id, -1);
}

// As the tape of a named policy does: see Tape::hold_unpacked().
void StepSimulation::hold_unpacked(HandleId handle) {
  const ValueId id = graph_.handles[at(handle)];
  const bool is_dropped = facts_.dropped(handle) < now_.backward_end;
  if (is_dropped && value(id).rebuilt != 0 && !is_held(value(id))) hold_rebuilt(id);
}

void StepSimulation::hold_rebuilt(ValueId id) {
  becomes_source<Alive>(*this, id);
  value(id).way = kUnpacked;
  now_.present.insert(id);
}

void StepSimulation::hold_in_hand(ValueId id) {
  const auto has_it = [&](HandleId h) {
    return graph_.handles[at(h)] == id && now_.in_hand[at(h)] != 0 && buffer(now_.in_hand[at(h)]).rebuilt;
  };
  const auto handle = std::find_if(now_.passing.begin(), now_.passing.end(), has_it);
  if (handle == now_.passing.end()) return;
  becomes_source<Pending>(*this, id);
  value(id).rebuilt = now_.in_hand[at(*handle)];
  reference(value(id).rebuilt);
  hold_rebuilt(id);
}

// Of a graph that is retained nothing is dropped, but a node has let go of what it unpacked when the next one begins.
void StepSimulation::pass(HandleId handle) {
  const auto has_ended = [&](HandleId other) { return facts_.node(other) != facts_.node(handle); };
  while (!now_.passing.empty() && has_ended(now_.passing.front())) {
    take_from_hand(now_.passing.front());
    now_.passing.erase(now_.passing.begin());
  }
  if (facts_.dropped(handle) >= now_.backward_end) now_.passing.push_back(handle);
}

void StepSimulation::note_fate(ValueId id) {
  const int32_t there = content(id);
  using enum History::Fate;
  const bool as_it_was = value(id).producer == kNone || (there != 0 && !buffer(there).rebuilt);
  const History::Fate fate = value(id).way > kAsItIs ? encoded : as_it_was ? kept : rebuilt;
  history->fates[at(id)] = std::max(history->fates[at(id)], fate);
}

void StepSimulation::drop(HandleId handle) {
  const auto h = at(handle);
  const ValueId id = graph_.handles[h];
  if (now_.in_backward && now_.consumed[h] == 0) change_need<Pending>(*this, id, -1);
  now_.consumed[h] = kGone;
  dropping_ = !facts_.moves_away(handle);
  change_need<Alive>(*this, id, -1);
  change_need<Reach>(*this, id, -1);
  dropping_ = false;
  if (rules_ != nullptr && saved_root_[h] == 0) rules_->dropped(id);
  if (saved_root_[h] != 0) unreference(storage_buffer(storage(id)));
  take_from_hand(handle);
}

void StepSimulation::take_from_hand(HandleId handle) {
  int32_t& its = now_.in_hand[at(handle)];
  if (its == 0) return;
  unreference(std::exchange(its, 0));
  if (rules_ != nullptr) rules_->in_hand(graph_.handles[at(handle)], -1);
}

// The buffer that has a value's content, without computing anything; 0 if none does.
int32_t StepSimulation::content(ValueId id) {
  const SimValue& v = value(id);
  if (v.rebuilt != 0) return v.rebuilt;
  const int32_t its = storage(id);
  if (its == kNone || now_.current[at(its)] != id) return 0;
  return buffer(storage_buffer(its)).references > 0 ? storage_buffer(its) : 0;
}

bool StepSimulation::is_available(ValueId id) {
  const SimValue& v = value(id);
  return v.producer == kNone || v.way > kAsItIs || content(id) != 0;
}

// A value's buffer, loaded if need be. 0 only for what came from outside.
int32_t StepSimulation::obtain(ValueId id) {
  const int32_t there = content(id);
  SimValue& v = value(id);
  if (there != 0 || v.way <= kAsItIs) return there;
  v.rebuilt = new_buffer(id);
  now_.present.insert(id);
  spend(facts_.way_cost(id, v.way).load_seconds);
  note_peak(0);
  return v.rebuilt;
}

// Leaves one use of the target, so that it is still there when its buffer is referred to.
int32_t StepSimulation::materialize(ValueId target) {
  ++value(target).uses;
  if (is_available(target)) return obtain(target);
  ++replays_;
  order_.clear();
  Rules rules(*this);
  rebuilding::find_ops(rules, target, order_, stack_);
  if (rules_ != nullptr) rules_->rebuild_begins(target, order_);
  rebuilding::run_readers_first(rules, order_);
  for (const OpId id : order_) replay(id);
  return content(target);
}

void StepSimulation::replay(OpId id) {
  const SimOp& o = op(id);
  const StepFacts::OpCost& cost = facts_.cost(id);
  Rules rules(*this);
  const bool shortcut = rebuilding::may_take_shortcut(rules, id, cost.shortcut_seconds);
  scratch_.assign(o.args.size(), 0);
  for (size_t i = 0; i < o.args.size() && !shortcut; ++i) {
    if (o.args[i].becomes != kNone && !o.args[i].shape_only) scratch_[i] = scratch_for(id, o.args[i].value);
  }
  arguments_.clear();
  for (const Arg& arg : o.args) {
    if (arg.shape_only || arg.becomes != kNone) continue;
    const int32_t its = obtain(arg.value);
    if (rules_ != nullptr && its != 0) arguments_.push_back(its);
  }
  note_peak_of_call(cost.working_bytes);
  passing_bytes_ = 0;
  const double seconds = shortcut ? cost.shortcut_seconds : cost.seconds;
  spend(seconds);
  ++now_.ops_replayed;
  if (history != nullptr) history->rebuilds.push_back({id, now_.next_event, seconds});
  for (const ValueId v : graph_.ops[at(id)].fresh) take_rebuilt(v, new_buffer(v));
  for (size_t i = 0; i < o.args.size(); ++i) {
    const auto before = scratch_.begin() + static_cast<std::ptrdiff_t>(i);
    if (scratch_[i] != 0 && std::find(scratch_.begin(), before, scratch_[i]) == before)
      take_rebuilt(o.args[i].becomes, scratch_[i]);
  }
  rebuilding::inputs_used(rules, id);
}

// While an operator runs it has its arguments too: to the rules that are asked when it allocates, they are shared.
void StepSimulation::note_peak_of_call(int64_t working_bytes) {
  for (const int32_t its : arguments_) reference(its);
  note_peak(working_bytes);
  for (const int32_t its : arguments_) unreference(its);
}

// The buffer an operator writes over. With one reference, its taker's.
int32_t StepSimulation::scratch_for(OpId id, ValueId content) {
  const Op& o = graph_.ops[at(id)];
  for (size_t i = 0; i < o.args.size(); ++i) {
    if (o.args[i].value == content && scratch_[i] != 0) return scratch_[i];
  }
  obtain(content);
  if (!rebuilding::may_write_over(Rules(*this), id, content)) {
    const int32_t copy = new_buffer(content);
    passing_bytes_ += graph_.values[at(content)].bytes;
    note_peak(0);
    return copy;
  }
  passing_bytes_ += graph_.values[at(content)].bytes;
  const int32_t taken = std::exchange(value(content).rebuilt, 0);
  ceases_source<Pending>(*this, content);
  return taken;
}

// Takes over one reference to the buffer.
void StepSimulation::take_rebuilt(ValueId id, int32_t content) {
  Rules rules(*this);
  if (!rebuilding::is_taken(rules, id)) return unreference(content);
  SimValue& v = value(id);
  becomes_source<Pending>(*this, id);
  v.rebuilt = content;
  now_.present.insert(id);
  buffer(content).value = id;
  if (rules_ != nullptr) rules_->rebuilt(id);
  if (v.uses == 0) rebuilding::release(rules, id);
}

void StepSimulation::end_rebuild() {
  passes_until_ = kNone;
  for (const ValueId v : std::exchange(passes_but_, {})) used(v);
  rules_->rebuild_ended();
}

void StepSimulation::pass_through(OpId until, std::vector<ValueId> but) {
  passes_until_ = until;
  passes_but_ = std::move(but);
  for (const ValueId v : passes_but_) ++value(v).uses;  // until the rebuild ends, see Replay::attempt()
}

void StepSimulation::used(ValueId id) {
  Rules rules(*this);
  rebuilding::used(rules, id);
}

void StepSimulation::free_rebuilt(ValueId id) {
  SimValue& v = value(id);
  if (v.rebuilt != 0) unreference(std::exchange(v.rebuilt, 0));
}

void StepSimulation::forget_rebuilt(ValueId id) {
  free_rebuilt(id);
  ceases_source<Pending>(*this, id);
}

}  // namespace retrace::plan
