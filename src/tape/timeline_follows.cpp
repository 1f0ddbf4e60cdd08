// A timeline that follows an earlier step, until this one does something else.
#include <algorithm>

#include "tape/timeline.h"

namespace retrace {
namespace {

// What operators and saves that were the same have named so far.
std::vector<char> known_values(const plan::Graph& graph) {
  std::vector<char> known(graph.values.size());
  const auto note = [&](plan::ValueId v) { known[plan::at(v)] = 1; };
  for (const plan::Op& op : graph.ops) {
    for (const plan::Arg& arg : op.args) note(arg.value);
    for_each_output(op, note);
  }
  for (const plan::ValueId v : graph.handles) note(v);
  return known;
}

}  // namespace

// When a release is noticed is no property of the step.
bool Timeline::is_next(Tape& tape, plan::EventKind kind, int32_t id) {
  const auto& events = like_.graph->events;
  while (event_ < events.size() && events[event_].kind == plan::EventKind::release) ++event_;
  const bool same = event_ < events.size() && events[event_].kind == kind && events[event_].id == id;
  if (same) {
    ++event_;
  } else {
    write_out(tape);
  }
  return same;
}

// Bytes and seconds are those of the other step, which began with as many bytes live.
void Timeline::write_out(Tape& tape) {
  const plan::Graph& like = *like_.graph;
  follows_ = false;
  graph_.ops.assign(like.ops.begin(), like.ops.begin() + static_cast<std::ptrdiff_t>(ops_met_));
  graph_.handles.assign(like.handles.begin(), like.handles.begin() + static_cast<std::ptrdiff_t>(saves_));
  graph_.events.assign(like.events.begin(), like.events.begin() + static_cast<std::ptrdiff_t>(event_));
  graph_.values = like.values;
  known_ = known_values(graph_);
  while (!known_.empty() && !known_.back()) known_.pop_back();
  graph_.values.resize(known_.size());
  prefix_hashes_.assign(like_.prefix_hashes->begin(),
                        like_.prefix_hashes->begin() + static_cast<std::ptrdiff_t>(ops_met_));
  description_ = like_.description->first(ops_met_, backwards_, known_);
  for (const plan::Backward& backward : like.backwards) {
    if (plan::at(backward.begin) >= event_) break;
    const bool ended = plan::at(backward.end) <= event_;
    graph_.backwards.push_back({backward.begin, ended ? backward.end : backward.begin, backward.records});
  }
  for (size_t v = 0; v < known_.size(); ++v) {
    plan::Value& value = graph_.values[v];
    if (!known_[v]) {
      value = {};
      continue;
    }
    const auto storage = static_cast<size_t>(tape.value(static_cast<ValueId>(v)).storage);
    if (storage >= storage_numbers_.size()) storage_numbers_.resize(storage + 1, plan::kNone);
    storage_numbers_[storage] = value.storage;
    storages_ = std::max(storages_, value.storage + 1);
  }
  find_released(tape);
}

// The program still has those storages that it has not been seen to let go of.
void Timeline::find_released(const Tape& tape) {
  std::vector<char> released(storage_numbers_.size());
  for (const plan::Event& event : graph_.events) {
    if (event.kind != plan::EventKind::release) continue;
    released[static_cast<size_t>(tape.value(event.id).storage)] = 1;
    ++releases_;
  }
  for (const plan::Op& op : graph_.ops) {
    for (const plan::ValueId v : op.fresh) {
      const StorageId storage = tape.value(v).storage;
      if (!released[static_cast<size_t>(storage)]) in_program_.push_back(storage);
    }
  }
}

}  // namespace retrace
