#include "plan/simulate/incremental_simulation.h"

#include <algorithm>

namespace retrace::plan {
namespace {

constexpr size_t kStates = 8;
constexpr size_t kShortest = 8;  // events between two of them
constexpr size_t kFew = 32;      // changes

bool same(const SimulationState& a, int32_t a_buffer, const SimulationState& b, int32_t b_buffer) {
  if (a_buffer == 0 || b_buffer == 0) return a_buffer == b_buffer;
  const Buffer &x = a.buffers[at(a_buffer)], &y = b.buffers[at(b_buffer)];
  return x.references == y.references && x.bytes == y.bytes;
}

}  // namespace

IncrementalSimulation::IncrementalSimulation(const Graph& graph, Effort* effort)
    : simulation_(graph, effort), states_(kStates + 1) {
  simulation_.wants_event_peaks = true;
  const auto first = graph.events.begin() + static_cast<std::ptrdiff_t>(simulation_.facts().first_unpack);
  const bool only_backward = std::none_of(
      first, graph.events.end(), [](const Event& e) { return e.kind == EventKind::op || e.kind == EventKind::save; });
  const size_t events = graph.events.size() - simulation_.facts().first_unpack;
  stride_ = only_backward ? std::max(kShortest, events / kStates + 1) : events + 1;
}

Outcome IncrementalSimulation::run(const Choices& choices, const Limits& limits) {
  if (!is_near(choices)) return run_whole(choices, limits);
  SimulationState* first = last_untouched(choices);
  simulation_.set_peaks(peaks_);
  change(*first, choices, limits);
  simulation_.recount();
  if (const SimulationState* same = run_until_same(first, false); same != end()) simulation_.finish_as(*same, outcome_);
  return simulation_.finish();
}

Outcome IncrementalSimulation::rebase(const Choices& choices, const Limits& limits) {
  if (!is_near(choices) || outcome_.gave_up) return run_whole(choices, limits);
  SimulationState* const first = last_untouched(choices);
  for (SimulationState* s = states_.data(); s != first; ++s) {
    change(*s, choices, limits);
    *s = simulation_.now();
  }
  simulation_.set_peaks(peaks_);
  change(*first, choices, limits);
  *first = simulation_.now();
  simulation_.recount();
  simulation_.track_touches(StepSimulation::Touches::record);
  SimulationState* const same = run_until_same(first, true);
  simulation_.track_touches(StepSimulation::Touches::ignore);
  if (same != end()) {
    const double seconds = simulation_.now().replay_seconds - same->replay_seconds;
    const int64_t ops = simulation_.now().ops_replayed - same->ops_replayed;
    simulation_.finish_as(*same, outcome_);
    for (SimulationState* s = same; s != end(); ++s) {
      s->replay_seconds += seconds;
      s->ops_replayed += ops;
    }
  }
  choices_ = choices;
  peaks_ = simulation_.peaks();
  return outcome_ = simulation_.finish();
}

Outcome IncrementalSimulation::run_whole(const Choices& choices, const Limits& limits) {
  choices_ = choices;
  states_known_ = 0;
  simulation_.begin(choices_, {});
  simulation_.run_until(simulation_.facts().first_unpack);
  simulation_.begin_backward();
  states_[states_known_++] = simulation_.now();
  simulation_.limit(limits);
  simulation_.recount();
  simulation_.clear_touches();
  simulation_.track_touches(StepSimulation::Touches::record);
  const size_t events = simulation_.graph().events.size();
  for (size_t next = simulation_.now().next_event + stride_; next < events && !simulation_.stopped(); next += stride_) {
    simulation_.run_until(next);
    if (!simulation_.stopped()) states_[states_known_++] = simulation_.now();
  }
  simulation_.run_until(events);
  simulation_.track_touches(StepSimulation::Touches::ignore);
  peaks_ = simulation_.peaks();
  return outcome_ = simulation_.finish();
}

bool IncrementalSimulation::is_near(const Choices& choices) {
  // What a value does in forward depends on more than its own choice where graphs die there.
  if (states_known_ == 0 || simulation_.facts().drops_in_forward) return false;
  changed_.clear();
  for (size_t v = 0; v < choices.size(); ++v) {
    if (choices[v] != choices_[v]) changed_.push_back(static_cast<ValueId>(v));
  }
  return changed_.size() <= kFew;
}

// What a change touches at the end of forward, directly and by needs that it takes away or adds, must not have been
// touched by anything else up to the state.
SimulationState* IncrementalSimulation::last_untouched(const Choices& choices) {
  simulation_.track_touches(StepSimulation::Touches::compare);
  change(states_.front(), choices, {});
  simulation_.track_touches(StepSimulation::Touches::ignore);
  size_t last = 0;
  while (last + 1 < states_known_ && states_[last + 1].next_event <= simulation_.first_touch()) ++last;
  return &states_[last];
}

void IncrementalSimulation::change(const SimulationState& state, const Choices& choices, const Limits& limits) {
  simulation_.resume_from(state, choices, limits);
  for (const ValueId v : changed_) simulation_.change_choice(v);
}

// From `state` on, to the first that is as it was, or to the end.
SimulationState* IncrementalSimulation::run_until_same(SimulationState* state, bool remember) {
  for (++state; state != end(); ++state) {
    simulation_.run_until(state->next_event);
    if (simulation_.stopped()) break;
    if (!outcome_.gave_up && same_as(*state)) return state;
    if (remember) *state = simulation_.now();
  }
  if (remember) states_known_ = static_cast<size_t>(state - states_.data());
  simulation_.run_until(simulation_.graph().events.size());
  return end();
}

bool IncrementalSimulation::same_as(const SimulationState& then) const {
  const SimulationState& now = simulation_.now();
  if (now.live != then.live || now.held_bytes != then.held_bytes || now.rebuilt_bytes != then.rebuilt_bytes)
    return false;
  for (const ValueId v : changed_) {
    if (now.values[at(v)].alive > 0) return false;
  }
  for (size_t v = 0; v < now.values.size(); ++v) {
    const SimValue &a = now.values[v], &b = then.values[v];
    if (a.alive != b.alive || a.pending != b.pending || a.uses != b.uses || a.way != b.way ||
        !same(now, a.rebuilt, then, b.rebuilt))
      return false;
  }
  for (size_t h = 0; h < now.in_hand.size(); ++h) {
    if (!same(now, now.in_hand[h], then, then.in_hand[h])) return false;
  }
  for (size_t s = 0; s <= simulation_.facts().storages(); ++s) {
    if (now.buffers[s].references != then.buffers[s].references) return false;
  }
  return true;
}

}  // namespace retrace::plan
