#include "plan/simulate/step_facts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace retrace::plan {
namespace {

// Of two to the minus forty seconds: sums of such are exact, so a step costs the same in whatever order it is added up.
double rounded(double seconds) { return std::ldexp(std::round(std::ldexp(seconds, 40)), -40); }

}  // namespace

StepFacts::StepFacts(const Graph& graph, bool is_plain)
    : graph(graph),
      is_plain(is_plain),
      first_unpack(plan::first_unpack(graph)),
      has_several_backwards(graph.backwards.size() > 1),
      storages_(storage_count(graph)),
      keepable_(is_plain ? std::vector<bool>(graph.values.size()) : keepable(graph)),
      moves_away_(graph.handles.size()),
      moves_here_(graph.handles.size()),
      node_(graph.handles.size(), kNone),
      saved_at_(graph.handles.size()),
      dropped_(graph.handles.size(), graph.events.size()) {
  for (const Value& v : graph.values) {
    first_way_.push_back(way_costs_.size());
    way_costs_.push_back({v.external ? 0 : v.bytes});
    for (const Way& w : v.ways) way_costs_.push_back({w.bytes, rounded(w.store_seconds), rounded(w.load_seconds)});
  }
  for (const Op& op : graph.ops) {
    bool repeats = false;
    for_each_output(op, [&](ValueId v) { repeats |= producer(v) != kNone; });
    repeatable_.push_back(repeats);
    costs_.push_back({rounded(op.seconds), rounded(op.shortcut_seconds), op.working_bytes});
  }
  find_moves();
  OpId next_op = 0;
  for (size_t e = 0; e < graph.events.size(); ++e) {
    const Event& event = graph.events[e];
    if (event.kind == EventKind::op) next_op = event.id + 1;
    if (event.kind == EventKind::save) saved_at_[at(event.id)] = next_op;
    if (event.kind != EventKind::drop) continue;
    dropped_[at(event.id)] = e;
    drops_in_forward |= e < first_unpack && !moves_away(event.id);
  }
  find_nodes();
  sweeps = has_several_backwards || leaves_roots();
}

void StepFacts::find_moves() {
  for (size_t e = 0; e + 1 < graph.events.size(); ++e) {
    const Event &event = graph.events[e], &next = graph.events[e + 1];
    if (event.kind != EventKind::drop || next.kind != EventKind::save) continue;
    const ValueId before = graph.handles[at(event.id)], after = graph.handles[at(next.id)];
    if (before >= after || storage(before) != storage(after)) continue;
    moves_away_[at(event.id)] = moves_here_[at(next.id)] = true;
  }
}

// The last backward over a graph shows which saved tensors a node has: it unpacks them and drops them before the next.
void StepFacts::find_nodes() {
  int32_t node = 0;
  bool ended = false;
  for (size_t e = first_unpack; e < graph.events.size(); ++e) {
    const Event& event = graph.events[e];
    if (event.kind == EventKind::drop) ended = true;
    if (event.kind != EventKind::unpack) continue;
    node += std::exchange(ended, false);
    node_[at(event.id)] = node;
  }
}

// Whether the first backward begins with roots that were read, and that nothing saved could come to need.
bool StepFacts::leaves_roots() const {
  std::vector<char> needed(graph.values.size());
  std::vector<ValueId> work;
  const auto need = [&](ValueId v) {
    if (std::exchange(needed[at(v)], 1) == 0) work.push_back(v);
  };
  for (size_t h = 0; h < dropped_.size(); ++h) {
    if (dropped_[h] > first_unpack) need(graph.handles[h]);
  }
  while (!work.empty()) {
    const OpId made_by = producer(work.back());
    work.pop_back();
    if (made_by != kNone) for_each_read(graph.ops[at(made_by)], need);
  }
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    bool leaves = false;
    for_each_read(graph.ops[at(static_cast<OpId>(o))],
                  [&](ValueId v) { leaves |= producer(v) == kNone && bytes(v) > 0 && needed[at(v)] == 0; });
    if (leaves && repeatable_[o] != 0) return true;
  }
  return false;
}

}  // namespace retrace::plan
