#include "plan/simulate/step_simulation.h"

#include <algorithm>
#include <utility>

namespace retrace::plan {
namespace {

// In the time that a simple event takes.
constexpr int64_t kCopied = 8;  // values, or events
constexpr int64_t kLooks = 8;   // at values

}  // namespace

StepSimulation::StepSimulation(const Graph& graph, Effort* effort, bool is_plain)
    : facts_(graph, is_plain),
      graph_(graph),
      effort_(effort),
      offered_(graph.values.size(), graph.events.size()),
      released_(facts_.storages(), graph.events.size()),
      saved_root_(graph.handles.size()),
      visited_(graph.ops.size()),
      touched_values_(graph.values.size()),
      touched_ops_(graph.ops.size()) {
  for (size_t v = 0; v < graph.values.size(); ++v) first_values_.push_back({facts_.producer(static_cast<ValueId>(v))});
  for (const Op& op : graph.ops) first_ops_.push_back({op.args});
  peaks_.early.resize(graph.events.size());
  peaks_.late.resize(graph.events.size());
}

void StepSimulation::begin(const Choices& choices, const Limits& limits) {
  choices_ = &choices;
  limits_ = limits;
  now_.next_event = 0;
  now_.in_backward = now_.in_recorded_backward = stopped_ = false;
  now_.values = first_values_;
  now_.ops = first_ops_;
  now_.ops_left.clear();
  now_.present.clear();
  now_.buffers.assign(facts_.storages() + 1, Buffer{});
  now_.free_buffers.clear();
  now_.current.assign(facts_.storages(), kNone);
  now_.consumed.assign(graph_.handles.size(), 0);
  now_.in_hand.assign(graph_.handles.size(), 0);
  now_.live = now_.held_bytes = now_.rebuilt_bytes = 0;
  now_.replay_seconds = 0;
  now_.ops_replayed = 0;
  now_.saved.clear();
  now_.passing.clear();
  std::fill(released_.begin(), released_.end(), graph_.events.size());
  excess_ = 0;
  outcome = Outcome{};
}

void StepSimulation::resume_from(const SimulationState& state, const Choices& choices, const Limits& limits) {
  choices_ = &choices;
  limits_ = limits;
  now_ = state;
  stopped_ = false;
  if (effort_ != nullptr) effort_->spend(static_cast<int64_t>(now_.values.size() + peaks_.late.size()) / kCopied);
}

void StepSimulation::recount() {
  outcome.event_peaks.clear();
  outcome.peak_bytes = 0;
  outcome.peak_event = 0;
  excess_ = 0;
  count_peaks(now_.next_event);
  stopped_ = too_expensive();
}

// Up to an event, from where they have been counted.
void StepSimulation::count_peaks(size_t end) {
  const size_t begin = outcome.event_peaks.size();
  outcome.event_peaks.resize(end);
  for (size_t e = begin; e < end; ++e) {
    const int64_t peak = std::max(peaks_.early[e], peaks_.late[e]);
    outcome.event_peaks[e] = peak;
    excess_ += std::max<int64_t>(0, peak - limits_.price.budget_bytes);
    if (peak <= outcome.peak_bytes) continue;
    outcome.peak_bytes = peak;
    outcome.peak_event = e;
  }
}

void StepSimulation::run_until(size_t end) {
  const size_t first_event = now_.next_event;
  for (; now_.next_event < end && !stopped_; ++now_.next_event) {
    if (now_.in_backward && ends_backwards() && now_.next_event >= now_.backward_end) end_backward();
    if (effort_ != nullptr && effort_->stopped()) {
      stopped_ = true;
      break;
    }
    event_peak_ = early_peak_ = 0;
    apply(graph_.events[now_.next_event]);
    if (wants_event_peaks) {
      outcome.event_peaks.push_back(event_peak_);
      peaks_.early[now_.next_event] = early_peak_;
      peaks_.late[now_.next_event] = now_.in_backward ? event_peak_ : other_ + now_.live;
    }
    if (event_peak_ <= limits_.price.budget_bytes) continue;
    excess_ += event_peak_ - limits_.price.budget_bytes;
    stopped_ |= too_expensive();
  }
  const int64_t looks = std::exchange(looks_, 0);
  if (effort_ != nullptr) effort_->spend(static_cast<int64_t>(now_.next_event - first_event) + looks / kLooks);
}

void StepSimulation::finish_as(const SimulationState& state, const Outcome& whole) {
  now_.replay_seconds += whole.replay_seconds - state.replay_seconds;
  now_.ops_replayed += whole.ops_replayed - state.ops_replayed;
  now_.next_event = graph_.events.size();
  count_peaks(now_.next_event);
}

double StepSimulation::excess() const {
  return limits_.price.excess(outcome.peak_bytes, static_cast<double>(excess_), graph_.events.size());
}

bool StepSimulation::too_expensive() const {
  return now_.replay_seconds + limits_.price.per_byte * excess() > limits_.cost;
}

Outcome StepSimulation::finish() {
  outcome.replay_seconds = now_.replay_seconds;
  outcome.ops_replayed = now_.ops_replayed;
  outcome.excess = excess();
  outcome.gave_up = stopped_;
  return outcome;
}

// Forward only holds: another choice there changes what is live, who needs whom, and nothing else.
void StepSimulation::change_choice(ValueId id) {
  const SimValue& v = value(id);
  const size_t offered = offered_[at(id)];
  if (v.producer == kNone || offered >= facts_.first_unpack) return;
  const int from = v.way, to = wanted_way(id);
  if (from == to) return;
  const bool in_backward = std::exchange(now_.in_backward, false);  // in forward nothing stops being held
  // As it is, holding it matters once the program has let go of it; in any other way, from when it is stored.
  const auto since = [&](int way) { return way == kAsItIs ? released_[at(storage(id))] : offered; };
  if (from != kNone) {
    add_live_since(since(from), -facts_.way_cost(id, from).bytes);
    now_.replay_seconds -= facts_.way_cost(id, from).store_seconds;
  }
  stop_holding(id);
  if (to != kNone) add_live_since(since(to), facts_.way_cost(id, to).bytes);
  hold_if_wanted(id);
  now_.in_backward = in_backward;
}

void StepSimulation::add_live_since(size_t event, int64_t bytes) {
  for (size_t e = event; e < now_.next_event; ++e) peaks_.late[e] += bytes;
  for (size_t e = event + 1; e < now_.next_event; ++e) peaks_.early[e] += bytes;
}

// -- Touches --

void StepSimulation::track_touches(Touches touches) {
  touches_ = touches;
  if (touches == Touches::compare) first_touch_ = SIZE_MAX;
}

void StepSimulation::clear_touches() {
  std::fill(touched_values_.begin(), touched_values_.end(), SIZE_MAX);
  std::fill(touched_ops_.begin(), touched_ops_.end(), SIZE_MAX);
}

// -- Events --

void StepSimulation::apply(const Event& event) {
  other_ = event.other_bytes - (facts_.is_plain ? event.extra_bytes : 0);
  switch (event.kind) {
    case EventKind::op:
      run_forward(event.id);
      break;
    case EventKind::save:
      save(event.id);
      break;
    case EventKind::release:
      release_storage(event.id);
      break;
    case EventKind::unpack:
      unpack(event.id);
      break;
    case EventKind::drop:
      drop(event.id);
      break;
    case EventKind::end:
      break;
  }
  other_ = event.other_peak - (facts_.is_plain ? event.extra_at_peak : 0);
  note_peak(0);
}

// -- Bytes --

void StepSimulation::note_peak(int64_t extra) {
  int64_t total = other_ + now_.live + extra;
  while (total > space_bytes_ && makes_space_->let_go_of_one()) total = other_ + now_.live + extra;
  if (total > outcome.peak_bytes && rules_ != nullptr) {
    rules_->peak_rises(extra);
    total = other_ + now_.live + extra;
  }
  if (total <= event_peak_ && total <= outcome.peak_bytes) return;
  if (total > event_peak_) {
    event_peak_ = total;
    if (listing_) list_live();
    if (history != nullptr) note_history(extra);
  }
  if (total <= outcome.peak_bytes) return;
  outcome.peak_bytes = total;
  outcome.peak_event = now_.next_event;
  outcome.at_peak = owners(extra);
  stopped_ |= total > limits_.bytes;
}

Owners StepSimulation::owners(int64_t extra) const {
  Owners o;
  o.weights = graph_.weight_bytes;
  o.gradients = graph_.events[now_.next_event].gradient_bytes;
  o.kept = now_.held_bytes;
  o.rebuilt = now_.rebuilt_bytes + (now_.in_backward ? extra : 0);
  o.other = other_ + now_.live + extra - o.weights - o.gradients - o.kept - o.rebuilt;
  return o;
}

void StepSimulation::list_live() {
  seen_.clear();
  for (const Buffer& b : now_.buffers) {
    if (b.references > 0 && b.value != kNone) seen_.push_back({b.value, b.rebuilt});
  }
  for (size_t v = 0; v < now_.values.size(); ++v) {
    if (now_.values[v].way > kAsItIs) seen_.push_back({static_cast<ValueId>(v), false});
  }
}

void StepSimulation::note_history(int64_t extra) {
  history->owners[now_.next_event] = owners(extra);
  if (history->live_event != now_.next_event) return;
  history->live.clear();
  using enum History::Owner;
  for (const Buffer& b : now_.buffers) {
    if (b.references == 0 || b.value == kNone) continue;
    history->live.push_back({b.value, b.bytes,
                             b.rebuilt                                 ? rebuilt
                             : now_.values[at(b.value)].way == kAsItIs ? kept
                                                                       : other});
  }
  for (size_t v = 0; v < now_.values.size(); ++v) {
    const int way = now_.values[v].way;
    if (way > kAsItIs) history->live.push_back({static_cast<ValueId>(v), graph_.values[v].bytes_in(way), kept});
  }
}

std::vector<Simulator::Live> StepSimulation::live_at_next_peak() {
  event_peak_ = 0;
  listing_ = true;
  apply(graph_.events[now_.next_event]);
  listing_ = false;
  return seen_;
}

void StepSimulation::reference(int32_t id) {
  Buffer& b = buffer(id);
  if (b.references++ > 0) return;
  now_.live += b.bytes;
  if (b.rebuilt) now_.rebuilt_bytes += b.bytes;
}

void StepSimulation::unreference(int32_t id) {
  Buffer& b = buffer(id);
  if (--b.references > 0) return;
  now_.live -= b.bytes;
  if (!b.rebuilt) return;
  now_.rebuilt_bytes -= b.bytes;
  now_.free_buffers.push_back(id);
}

int32_t StepSimulation::new_buffer(ValueId id) {
  if (now_.free_buffers.empty()) {
    now_.free_buffers.push_back(static_cast<int32_t>(now_.buffers.size()));
    now_.buffers.emplace_back();
  }
  const int32_t fresh = now_.free_buffers.back();
  now_.free_buffers.pop_back();
  // Also of what came from outside: a copy of a BatchNorm's statistics is ours.
  buffer(fresh) = {graph_.values[at(id)].bytes, 0, id, true};
  reference(fresh);
  return fresh;
}

void StepSimulation::spend(double seconds) {
  now_.replay_seconds += seconds;
  if (history != nullptr) history->replay_seconds[now_.next_event] += seconds;
  stopped_ |= now_.replay_seconds > limits_.seconds;
}

// -- Forward --

int StepSimulation::wanted_way(ValueId id) const {
  // A policy that wants a value holds it until it is overwritten.
  const bool can_be_held = facts_.is_keepable(id) || (rules_ != nullptr && facts_.producer(id) != kNone);
  const Choice choice = possible((*choices_)[at(id)], graph_.values[at(id)], can_be_held);
  return choice.holds() ? choice.way() : kNone;
}

void StepSimulation::run_forward(OpId id) {
  if (rules_ != nullptr) rules_->op_begins(id);
  note_peak(facts_.cost(id).working_bytes);
  early_peak_ = event_peak_;
  const Op& o = graph_.ops[at(id)];
  for (const ValueId v : o.fresh) begin_storage(v);
  for (const Arg& arg : o.args) {
    if (arg.becomes != kNone) overwrite(arg);
  }
  for (const Arg& arg : o.args) {
    if (facts_.is_repeatable(id) && !arg.shape_only && arg.becomes == kNone) hold_if_wanted(arg.value);
  }
  // Not an update.
  if (facts_.is_repeatable(id) || !o.fresh.empty()) now_.ops_left.insert(id);
  if (rules_ != nullptr) rules_->op_ran(id);
}

void StepSimulation::begin_storage(ValueId id) {
  const int32_t its = storage(id);
  Buffer& b = buffer(storage_buffer(its));
  b.bytes = facts_.bytes(id);
  b.value = id;
  now_.current[at(its)] = id;
  reference(storage_buffer(its));  // the program's
}

void StepSimulation::overwrite(const Arg& arg) {
  if (!facts_.is_plain) stop_holding(arg.value);
  const int32_t its = storage(arg.becomes);
  now_.current[at(its)] = arg.becomes;
  buffer(storage_buffer(its)).value = arg.becomes;
}

void StepSimulation::release_storage(ValueId id) {
  const int32_t its = storage(id);
  if (now_.current[at(its)] != kNone) value(now_.current[at(its)]);
  released_[at(its)] = now_.next_event;
  unreference(storage_buffer(its));
}

void StepSimulation::hold(ValueId id, int way) {
  becomes_source<Alive>(*this, id);
  becomes_source<Pending>(*this, id);
  const StepFacts::WayCost& cost = facts_.way_cost(id, way);
  value(id).way = static_cast<int16_t>(way);
  now_.present.insert(id);
  now_.held_bytes += cost.bytes;
  if (way == kAsItIs) {
    reference(storage_buffer(storage(id)));
  } else {
    now_.live += cost.bytes;
    spend(cost.store_seconds);
  }
  outcome.kept_bytes = std::max(outcome.kept_bytes, now_.held_bytes);
  if (rules_ != nullptr) rules_->held(id);
}

void StepSimulation::add_held(int64_t bytes) {
  now_.live += bytes;
  now_.held_bytes += bytes;
  outcome.kept_bytes = std::max(outcome.kept_bytes, now_.held_bytes);
}

bool StepSimulation::has_storage(ValueId id) const {
  const int32_t its = storage(id);
  return its != kNone && (graph_.values[at(id)].external || now_.buffers[at(storage_buffer(its))].references > 0);
}

bool StepSimulation::is_living(ValueId id) const { return has_storage(id) && now_.current[at(storage(id))] == id; }

bool StepSimulation::is_shared(ValueId id) const {
  const SimValue& v = now_.values[at(id)];
  if (v.way == kAsItIs) return now_.buffers[at(storage_buffer(storage(id)))].references > 1;
  return v.rebuilt != 0 && now_.buffers[at(v.rebuilt)].references > 1;
}

void StepSimulation::hold_if_wanted(ValueId id) {
  const SimValue& v = value(id);
  offered_[at(id)] = std::min(offered_[at(id)], now_.next_event);
  if (is_held(v)) return;
  if (v.producer == kNone) {
    if (facts_.bytes(id) > 0) hold(id, kAsItIs);
  } else if (const int way = wanted_way(id); way != kNone) {
    hold(id, way);
  }
}

void StepSimulation::stop_holding(ValueId id) {
  SimValue& v = value(id);
  if (!is_held(v)) return;
  if (v.way == kUnpacked) {
    v.way = kNone;
    if (v.pending == 0 && v.uses == 0) free_rebuilt(id);
    return ceases_source<Alive>(*this, id);
  }
  const int64_t bytes = facts_.way_cost(id, v.way).bytes;
  now_.held_bytes -= bytes;
  if (v.way == kAsItIs) {
    unreference(storage_buffer(storage(id)));
  } else {
    now_.live -= bytes;
  }
  v.way = kNone;
  ceases_source<Alive>(*this, id);
  ceases_source<Pending>(*this, id);
}

void StepSimulation::save(HandleId handle) {
  const ValueId id = graph_.handles[at(handle)];
  saved_root_[at(handle)] = value(id).producer == kNone && !facts_.is_plain;
  if (saved_root_[at(handle)] != 0) {
    reference(storage_buffer(storage(id)));  // the handle itself has it
  } else {
    hold_if_wanted(id);
    if (rules_ != nullptr && !facts_.moves_here(handle)) rules_->saving(id);
  }
  change_need<Alive>(*this, id, 1);
  change_need<Reach>(*this, id, 1);
  if (now_.in_backward) now_.consumed[at(handle)] = 1;
  if (!now_.in_backward || ends_backwards()) now_.saved.push_back(handle);
  if (rules_ == nullptr || saved_root_[at(handle)] != 0) return;
  !facts_.moves_here(handle) ? rules_->saved(id) : rules_->followed(id);
}

}  // namespace retrace::plan
