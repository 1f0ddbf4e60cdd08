#include "plan/graph/lifetimes.h"

#include <algorithm>

namespace retrace::plan {
namespace {

constexpr int32_t kNever = INT32_MAX;

std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> result;
  for (const Span& s : spans) {
    if (s.begin >= s.end) continue;
    if (!result.empty() && s.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, s.end);
    } else {
      result.push_back(s);
    }
  }
  return result;
}

}  // namespace

Lifetimes::Lifetimes(const Graph& graph)
    : graph_(graph), base_(graph.events.size()), first_unpack_(static_cast<int32_t>(plan::first_unpack(graph))) {
  const size_t count = graph.values.size();
  const std::vector<bool> can = plan::keepable(graph);
  keepable_.assign(can.begin(), can.end());
  last_content_.assign(count, 0);
  std::vector<char> taken(storage_count(graph));
  for (size_t v = count; v-- > 0;) {
    const int32_t storage = graph.values[v].storage;
    last_content_[v] = storage != kNone && taken[at(storage)] == 0;
    if (storage != kNone) taken[at(storage)] = 1;
  }
  read_events();
  find_ends();
  find_spans();
  find_base();
}

int64_t Lifetimes::most_base_bytes() const { return base_.empty() ? 0 : *std::max_element(base_.begin(), base_.end()); }

std::span<const Span> Lifetimes::spans(ValueId v, int way) const {
  if (way != kAsItIs) return {&whole_[at(v)], 1};
  const int32_t begin = first_span_[at(v)], end = first_span_[at(v) + 1];
  return {all_spans_.data() + begin, static_cast<size_t>(end - begin)};
}

void Lifetimes::read_events() {
  const auto end = static_cast<int32_t>(graph_.events.size());
  std::vector<int32_t> op_event(graph_.ops.size(), kNever), storage_released(storage_count(graph_), end);
  std::vector<int32_t> dropped(graph_.handles.size(), end);
  Unpacks unpacks;
  for (int32_t t = 0; t < end; ++t) {
    const Event& event = graph_.events[at(t)];
    switch (event.kind) {
      case EventKind::op:
        op_event[at(event.id)] = t;
        break;
      case EventKind::release:
        if (const int32_t s = graph_.values[at(event.id)].storage; s != kNone) storage_released[at(s)] = t;
        break;
      case EventKind::unpack:
        unpacks.emplace_back(graph_.handles[at(event.id)], t);
        break;
      case EventKind::drop:
        dropped[at(event.id)] = t;
        break;
      default:
        break;
    }
  }
  made_.assign(graph_.values.size(), kNever);
  for (size_t o = 0; o < graph_.ops.size(); ++o) {
    for_each_output(graph_.ops[o], [&](ValueId v) { made_[at(v)] = op_event[o]; });
  }
  released_.assign(graph_.values.size(), 0);
  for (size_t v = 0; v < released_.size(); ++v) {
    const int32_t storage = graph_.values[v].storage;
    released_[v] = storage == kNone ? 0 : storage_released[at(storage)];
  }
  find_asked(unpacks);
  find_in_hand(dropped);
}

// What backward asks for, and what a replay reads at no price.
void Lifetimes::find_asked(const Unpacks& unpacks) {
  const size_t count = graph_.values.size();
  asked_.assign(count, 0);
  for (const auto& [v, t] : unpacks) {
    const bool program_has_it = last_content_[at(v)] != 0 && t < released_[at(v)];
    if (graph_.values[at(v)].producer != kNone && !program_has_it) asked_[at(v)] = 1;
  }
  const std::vector<int32_t> first_read = first_reads(unpacks);
  free_.assign(count, 0);
  for (size_t v = 0; v < count; ++v) {
    free_[v] = graph_.values[v].producer == kNone || (last_content_[v] != 0 && released_[v] > first_read[v]);
  }
}

// `dropped`: by handle, the event.
void Lifetimes::find_in_hand(const std::vector<int32_t>& dropped) {
  std::vector<int32_t> unpacked(graph_.handles.size(), kNever);
  for (int32_t t = 0; at(t) < graph_.events.size(); ++t) {
    const Event& event = graph_.events[at(t)];
    if (event.kind != EventKind::unpack || dropped[at(event.id)] >= backward_end(t)) continue;
    unpacked[at(event.id)] = std::min(unpacked[at(event.id)], t);
  }
  last_drop_.assign(graph_.values.size(), -1);
  in_hand_.resize(graph_.values.size());
  for (size_t h = 0; h < graph_.handles.size(); ++h) {
    const size_t v = at(graph_.handles[h]);
    last_drop_[v] = std::max(last_drop_[v], dropped[h]);
    if (unpacked[h] != kNever) in_hand_[v].push_back({std::max(unpacked[h], released_[v]), dropped[h]});
  }
  for (auto& spans : in_hand_) spans = merged(std::move(spans));
}

// Of the backward that an event is in. A node has what it has unpacked until that ends, at most; where there is one,
// until it is dropped.
int32_t Lifetimes::backward_end(int32_t event) const {
  if (graph_.backwards.size() < 2) return kNever;
  const Backward* const backward = backward_at(graph_, event);
  return backward ? backward->end : kNever;
}

// By value: before then no replay reads it. Whoever rebuilds it, or something made from it, was asked for it or for
// that.
std::vector<int32_t> Lifetimes::first_reads(const Unpacks& unpacks) const {
  std::vector<int32_t> first(graph_.values.size(), kNever);
  for (const auto& [v, t] : unpacks) first[at(v)] = std::min(first[at(v)], t);
  for (size_t o = graph_.ops.size(); o-- > 0;) {
    const Op& op = graph_.ops[o];
    int32_t earliest = kNever;
    for_each_output(op, [&](ValueId v) { earliest = std::min(earliest, first[at(v)]); });
    for_each_read(op, [&](ValueId v) { first[at(v)] = std::min(first[at(v)], earliest); });
  }
  return first;
}

// A value nobody saved is of use only to an operator that rebuilds one of its own results, and stays needed as long as
// that result does: hence the minimum over those who read it, backwards.
void Lifetimes::find_ends() {
  std::vector<int32_t> by_readers(graph_.values.size(), kNever);
  alive_end_.assign(graph_.values.size(), kNever);
  for (size_t o = graph_.ops.size(); o-- > 0;) {
    const Op& op = graph_.ops[o];
    int32_t op_end = kNever;
    for_each_output(op, [&](ValueId v) {
      alive_end_[at(v)] = last_drop_[at(v)] >= 0 ? last_drop_[at(v)] : by_readers[at(v)];
      if (graph_.values[at(v)].producer != kNone) op_end = std::min(op_end, alive_end_[at(v)]);
    });
    for_each_read(op, [&](ValueId v) { by_readers[at(v)] = std::min(by_readers[at(v)], op_end); });
  }
}

void Lifetimes::find_spans() {
  const size_t count = graph_.values.size();
  whole_.resize(count);
  for (size_t v = 0; v < count; ++v) {
    first_span_.push_back(static_cast<int32_t>(all_spans_.size()));
    if (keepable_[v] == 0 || alive_end_[v] == kNever) continue;
    const int32_t end = alive_end_[v];
    int32_t begin = released_[v];
    if (begin >= end) continue;
    whole_[v] = {begin, end};
    for (const Span& hand : in_hand_[v]) {
      if (hand.begin > begin) all_spans_.push_back({begin, std::min(hand.begin, end)});
      begin = std::max(begin, hand.end);
    }
    if (begin < end) all_spans_.push_back({begin, end});
  }
  first_span_.push_back(static_cast<int32_t>(all_spans_.size()));
}

void Lifetimes::find_base() {
  const auto end = static_cast<int32_t>(graph_.events.size());
  std::vector<int64_t> change(at(end) + 1);
  const auto live = [&](int32_t from, int32_t until, int64_t bytes) {
    if (from >= until) return;
    change[at(from)] += bytes;
    change[at(until)] -= bytes;
  };
  std::vector<int64_t> storage_bytes(storage_count(graph_));
  for (const Op& op : graph_.ops) {
    for (const ValueId v : op.fresh) {
      const Value& value = graph_.values[at(v)];
      const int64_t bytes = value.external ? 0 : value.bytes;
      storage_bytes[at(value.storage)] = bytes;
      if (made_[at(v)] != kNever) live(made_[at(v)], released_[at(v)], bytes);
    }
  }
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    if (value.storage == kNone || value.external) continue;
    if (value.producer != kNone) {
      for (const Span& s : in_hand_[v]) live(s.begin, s.end, value.bytes);
    } else if (last_content_[v] != 0 && last_drop_[v] >= 0) {
      live(released_[v], last_drop_[v], storage_bytes[at(value.storage)]);
    }
  }
  int64_t hand = 0;
  for (int32_t t = 0; t < end; ++t) {
    const Event& event = graph_.events[at(t)];
    int64_t running = 0;
    if (event.kind == EventKind::op) running = event.other_bytes + hand + graph_.ops[at(event.id)].working_bytes;
    // What goes away with this event is not counted while it runs: a lower bound.
    hand += change[at(t)];
    if (event.kind != EventKind::op) running = 0;
    base_[at(t)] = std::max(running, event.other_peak + hand);
  }
}

}  // namespace retrace::plan
