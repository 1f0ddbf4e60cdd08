#include "plan/simulate/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace retrace::plan {
namespace {

// In the time that a simple event takes.
constexpr int64_t kCopied = 8;  // values, or events
constexpr int64_t kLooks = 8;   // at values

// Of two to the minus forty seconds: sums of such are exact, so a step costs the same in whatever order it is added up.
double rounded(double seconds) { return std::ldexp(std::round(std::ldexp(seconds, 40)), -40); }

}  // namespace

StepSimulation::StepSimulation(const Graph& graph, Effort* effort, bool is_plain)
    : graph_(graph),
      effort_(effort),
      is_plain_(is_plain),
      keepable_(is_plain ? std::vector<bool>(graph.values.size()) : plan::keepable(graph)),
      several_(graph.backwards.size() > 1),
      dropped_(graph.handles.size(), graph.events.size()),
      offered_(graph.values.size(), graph.events.size()),
      saved_root_(graph.handles.size()),
      visited_(graph.ops.size()),
      touched_values_(graph.values.size()),
      touched_ops_(graph.ops.size()) {
  for (const Value& v : graph.values) {
    first_values_.push_back({is_plain ? kNone : v.producer});
    bytes_.push_back(v.external ? 0 : v.bytes);
    first_way_.push_back(way_costs_.size());
    way_costs_.push_back({bytes_.back()});
    for (const Way& w : v.ways) way_costs_.push_back({w.bytes, rounded(w.store_seconds), rounded(w.load_seconds)});
  }
  for (const Op& op : graph.ops) {
    const auto repeats = [&](ValueId v) { return v != kNone && first_values_[at(v)].producer != kNone; };
    repeatable_.push_back(
        std::any_of(op.fresh.begin(), op.fresh.end(), repeats) ||
        std::any_of(op.args.begin(), op.args.end(), [&](const Arg& a) { return repeats(a.becomes); }));
    first_ops_.push_back({op.args});
    costs_.push_back({rounded(op.seconds), rounded(op.shortcut_seconds), op.working_bytes});
  }
  first_unpack_ = plan::first_unpack(graph);
  for (size_t e = 0; e < graph.events.size(); ++e) {
    if (graph.events[e].kind == EventKind::drop) dropped_[at(graph.events[e].id)] = e;
  }
  sweeps_ = several_ || leaves_roots();
  find_nodes();
  find_moves();
  drops_in_forward_ =
      std::any_of(graph.events.begin(), graph.events.begin() + static_cast<std::ptrdiff_t>(first_unpack_),
                  [&](const Event& e) { return e.kind == EventKind::drop && (moves_[at(e.id)] & kMovesAway) == 0; });
  released_.assign(storage_count(graph), graph.events.size());
  peaks_.early.resize(graph.events.size());
  peaks_.late.resize(graph.events.size());
}

// The last backward over a graph shows which saved tensors a node has: it unpacks them and drops them before the next.
void StepSimulation::find_nodes() {
  node_.assign(graph_.handles.size(), kNone);
  int32_t node = 0;
  bool ended = false;
  for (size_t e = first_unpack_; e < graph_.events.size(); ++e) {
    const Event& event = graph_.events[e];
    if (event.kind == EventKind::drop) ended = true;
    if (event.kind != EventKind::unpack) continue;
    node += std::exchange(ended, false);
    node_[at(event.id)] = node;
  }
}

// A saved tensor that is written in place before backward stands for what it becomes: one handle is dropped and, at
// once, another of the same storage saved. (handles_follow() in tape/writes.cpp)
void StepSimulation::find_moves() {
  moves_.resize(graph_.handles.size());
  for (size_t e = 0; e + 1 < graph_.events.size(); ++e) {
    const Event &event = graph_.events[e], &next = graph_.events[e + 1];
    if (event.kind != EventKind::drop || next.kind != EventKind::save) continue;
    const ValueId before = graph_.handles[at(event.id)], after = graph_.handles[at(next.id)];
    if (before >= after || storage(before) != storage(after)) continue;
    moves_[at(event.id)] |= kMovesAway;
    moves_[at(next.id)] |= kMovesHere;
  }
}

void StepSimulation::begin(const Choices& choices, const Limits& limits) {
  choices_ = &choices;
  limits_ = limits;
  now_.next_event = 0;
  now_.in_backward = now_.in_recorded_backward = stopped_ = false;
  now_.values = first_values_;
  now_.ops = first_ops_;
  now_.buffers.assign(storages() + 1, Buffer{});
  now_.free_buffers.clear();
  now_.current.assign(storages(), kNone);
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
  if (v.producer == kNone || offered >= first_unpack_) return;
  const int from = v.way, to = wanted_way(id);
  if (from == to) return;
  const bool in_backward = std::exchange(now_.in_backward, false);  // in forward nothing stops being held
  // As it is, holding it matters once the program has let go of it; in any other way, from when it is stored.
  const auto since = [&](int way) { return way == kAsItIs ? released_[at(storage(id))] : offered; };
  if (from != kNone) {
    add_live_since(since(from), -way_cost(id, from).bytes);
    now_.replay_seconds -= way_cost(id, from).store_seconds;
  }
  stop_holding(id);
  if (to != kNone) add_live_since(since(to), way_cost(id, to).bytes);
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
  other_ = event.other_bytes - (is_plain_ ? event.extra_bytes : 0);
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
  other_ = event.other_peak - (is_plain_ ? event.extra_at_peak : 0);
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
  const auto v = at(id);
  // A policy that wants a value holds it until it is overwritten.
  const bool can_be_held = keepable_[v] || (rules_ != nullptr && first_values_[v].producer != kNone);
  const Choice choice = possible((*choices_)[v], graph_.values[v], can_be_held);
  return choice.holds() ? choice.way() : kNone;
}

void StepSimulation::run_forward(OpId id) {
  if (rules_ != nullptr) rules_->op_begins(id);
  note_peak(costs_[at(id)].working_bytes);
  early_peak_ = event_peak_;
  const Op& o = graph_.ops[at(id)];
  for (const ValueId v : o.fresh) begin_storage(v);
  for (const Arg& arg : o.args) {
    if (arg.becomes != kNone) overwrite(arg);
  }
  for (const Arg& arg : o.args) {
    if (repeatable_[at(id)] != 0 && !arg.shape_only && arg.becomes == kNone) hold_if_wanted(arg.value);
  }
  if (rules_ != nullptr) rules_->op_ran(id);
}

void StepSimulation::begin_storage(ValueId id) {
  const int32_t its = storage(id);
  Buffer& b = buffer(storage_buffer(its));
  b.bytes = bytes(id);
  b.value = id;
  now_.current[at(its)] = id;
  reference(storage_buffer(its));  // the program's
}

void StepSimulation::overwrite(const Arg& arg) {
  if (!is_plain_) stop_holding(arg.value);
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
  const WayCost& cost = way_cost(id, way);
  value(id).way = static_cast<int16_t>(way);
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
    if (bytes(id) > 0) hold(id, kAsItIs);
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
  const int64_t bytes = way_cost(id, v.way).bytes;
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
  saved_root_[at(handle)] = value(id).producer == kNone && !is_plain_;
  if (saved_root_[at(handle)] != 0) {
    reference(storage_buffer(storage(id)));  // the handle itself has it
  } else {
    hold_if_wanted(id);
    if (rules_ != nullptr && (moves_[at(handle)] & kMovesHere) == 0) rules_->saving(id);
  }
  change_need<Alive>(*this, id, 1);
  change_need<Reach>(*this, id, 1);
  if (now_.in_backward) now_.consumed[at(handle)] = 1;
  if (!now_.in_backward || ends_backwards()) now_.saved.push_back(handle);
  if (rules_ == nullptr || saved_root_[at(handle)] != 0) return;
  (moves_[at(handle)] & kMovesHere) == 0 ? rules_->saved(id) : rules_->followed(id);
}

}  // namespace retrace::plan
