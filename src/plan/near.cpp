#include "plan/near.h"

#include <algorithm>

namespace retrace::plan {
namespace {

constexpr size_t kMoments = 8;
constexpr size_t kShortest = 8;  // events between two of them
constexpr size_t kFew = 32;      // changes

size_t at(int32_t id) { return static_cast<size_t>(id); }

bool same(const Moment& a, int32_t a_buffer, const Moment& b, int32_t b_buffer) {
  if (a_buffer == 0 || b_buffer == 0) return a_buffer == b_buffer;
  const Buffer &x = a.buffers[at(a_buffer)], &y = b.buffers[at(b_buffer)];
  return x.references == y.references && x.bytes == y.bytes;
}

}  // namespace

Near::Near(const Graph& graph) : machine_(graph), moments_(kMoments + 1) {
  machine_.wants_event_peaks = true;
  const auto first = graph.events.begin() + static_cast<std::ptrdiff_t>(machine_.first_unpack());
  const bool only_backward = std::none_of(
      first, graph.events.end(), [](const Event& e) { return e.kind == EventKind::op || e.kind == EventKind::save; });
  const size_t events = graph.events.size() - machine_.first_unpack();
  stride_ = only_backward ? std::max(kShortest, events / kMoments + 1) : events + 1;
}

Outcome Near::run(const Choices& choices, const Machine::Limits& limits) {
  if (!is_near(choices)) return run_whole(choices, limits);
  Moment* first = last_untouched(choices);
  machine_.set_peaks(peaks_);
  change(*first, choices, limits);
  machine_.sum_up();
  if (const Moment* same = play_until_same(first, false); same != end()) machine_.go_the_same_way(*same, outcome_);
  return machine_.finish();
}

Outcome Near::settle(const Choices& choices, const Machine::Limits& limits) {
  if (!is_near(choices) || outcome_.gave_up) return run_whole(choices, limits);
  Moment* const first = last_untouched(choices);
  for (Moment* m = moments_.data(); m != first; ++m) {
    change(*m, choices, limits);
    *m = machine_.now();
  }
  machine_.set_peaks(peaks_);
  change(*first, choices, limits);
  *first = machine_.now();
  machine_.sum_up();
  machine_.take_notes(Machine::Notes::write);
  Moment* const same = play_until_same(first, true);
  machine_.take_notes(Machine::Notes::none);
  if (same != end()) {
    const double seconds = machine_.now().replay_seconds - same->replay_seconds;
    const int64_t ops = machine_.now().ops_replayed - same->ops_replayed;
    machine_.go_the_same_way(*same, outcome_);
    for (Moment* m = same; m != end(); ++m) {
      m->replay_seconds += seconds;
      m->ops_replayed += ops;
    }
  }
  choices_ = choices;
  peaks_ = machine_.peaks();
  return outcome_ = machine_.finish();
}

Outcome Near::run_whole(const Choices& choices, const Machine::Limits& limits) {
  choices_ = choices;
  moments_known_ = 0;
  machine_.begin(choices_, {});
  machine_.play(machine_.first_unpack());
  machine_.begin_backward();
  moments_[moments_known_++] = machine_.now();
  machine_.limit(limits);
  machine_.sum_up();
  machine_.forget_notes();
  machine_.take_notes(Machine::Notes::write);
  const size_t events = machine_.graph().events.size();
  for (size_t next = machine_.now().at + stride_; next < events && !machine_.stopped(); next += stride_) {
    machine_.play(next);
    if (!machine_.stopped()) moments_[moments_known_++] = machine_.now();
  }
  machine_.play(events);
  machine_.take_notes(Machine::Notes::none);
  peaks_ = machine_.peaks();
  return outcome_ = machine_.finish();
}

bool Near::is_near(const Choices& choices) {
  // What a value does in forward depends on more than its own choice where graphs die there.
  if (moments_known_ == 0 || machine_.lets_go_in_forward()) return false;
  changed_.clear();
  for (size_t v = 0; v < choices.size(); ++v) {
    if (choices[v] != choices_[v]) changed_.push_back(static_cast<ValueId>(v));
  }
  return changed_.size() <= kFew;
}

// What a change touches at the end of forward, directly and by needs that it takes away or adds, must not have been
// touched by anything else up to the moment.
Moment* Near::last_untouched(const Choices& choices) {
  machine_.take_notes(Machine::Notes::read);
  change(moments_.front(), choices, {});
  machine_.take_notes(Machine::Notes::none);
  size_t last = 0;
  while (last + 1 < moments_known_ && moments_[last + 1].at <= machine_.first_touch()) ++last;
  return &moments_[last];
}

void Near::change(const Moment& moment, const Choices& choices, const Machine::Limits& limits) {
  machine_.go_on(moment, choices, limits);
  for (const ValueId v : changed_) machine_.follow_anew(v);
}

// From `moment` on, to the first that is as it was, or to the end.
Moment* Near::play_until_same(Moment* moment, bool remember) {
  for (++moment; moment != end(); ++moment) {
    machine_.play(moment->at);
    if (machine_.stopped()) break;
    if (!outcome_.gave_up && same_as(*moment)) return moment;
    if (remember) *moment = machine_.now();
  }
  if (remember) moments_known_ = static_cast<size_t>(moment - moments_.data());
  machine_.play(machine_.graph().events.size());
  return end();
}

bool Near::same_as(const Moment& then) const {
  const Moment& now = machine_.now();
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
  for (size_t s = 0; s <= machine_.storages(); ++s) {
    if (now.buffers[s].references != then.buffers[s].references) return false;
  }
  return true;
}

}  // namespace retrace::plan
