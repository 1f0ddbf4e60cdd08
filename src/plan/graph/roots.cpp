#include "plan/graph/roots.h"

#include <algorithm>

namespace retrace::plan {
namespace {

std::vector<char> saved_values(const Graph& graph) {
  std::vector<char> saved(graph.values.size());
  for (const ValueId v : graph.handles) saved[at(v)] = 1;
  return saved;
}

std::vector<std::vector<OpId>> readers_of(const Graph& graph) {
  std::vector<std::vector<OpId>> readers(graph.values.size());
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for_each_read(graph.ops[o], [&](ValueId v) { readers[at(v)].push_back(static_cast<OpId>(o)); });
  }
  return readers;
}

// Bytes of what autograd saved and could be rebuilt with the root's help; stops counting above `enough`.
int64_t saved_behind(const Graph& graph, const std::vector<std::vector<OpId>>& readers, const std::vector<char>& saved,
                     ValueId root, int64_t enough) {
  int64_t bytes = 0;
  std::vector<char> seen(graph.ops.size());
  std::vector<ValueId> work{root};
  while (!work.empty() && bytes <= enough) {
    const ValueId value = work.back();
    work.pop_back();
    for (const OpId o : readers[at(value)]) {
      if (seen[at(o)]++) continue;
      for_each_output(graph.ops[at(o)], [&](ValueId v) {
        if (graph.values[at(v)].producer != o) return;
        if (saved[at(v)] != 0) bytes += graph.values[at(v)].bytes;
        work.push_back(v);
      });
    }
  }
  return bytes;
}

void make_roots(Graph& graph, const std::vector<OpId>& ops) {
  for (const OpId o : ops) {
    for_each_output(graph.ops[at(o)], [&](ValueId v) { graph.values[at(v)].producer = kNone; });
  }
}

// By value: the program let go of it before backward began, or between two.
std::vector<char> released_in_forward(const Graph& graph) {
  std::vector<char> released(graph.values.size());
  for (int32_t e = 0; at(e) < graph.events.size(); ++e) {
    const Event& event = graph.events[at(e)];
    if (event.kind == EventKind::unpack && graph.backwards.size() < 2) break;
    if (event.kind == EventKind::release && !backward_at(graph, e)) released[at(event.id)] = 1;
  }
  return released;
}

// Read by one operator alone, which makes nothing but what it overwrites the root with: no copy is made for that to run
// again (policy/overwritten_root.h).
bool is_only_overwritten(const Graph& graph, const std::vector<OpId>& readers, ValueId root) {
  const Op& op = graph.ops[at(readers.front())];
  const auto overwrites = [&](const Arg& arg) { return arg.value == root && arg.becomes != kNone; };
  return op.fresh.empty() &&
         std::all_of(readers.begin(), readers.end(), [&](OpId o) { return o == readers.front(); }) &&
         std::any_of(op.args.begin(), op.args.end(), overwrites);
}

// In the order they were made, for what reads a root that is not held makes roots.
template <class Pays>
std::vector<char> roots_not_worth_holding(const Graph& graph, bool external, Pays pays) {
  Graph rest = graph;
  std::vector<char> result(graph.values.size());
  const std::vector<char> saved = saved_values(graph), released = released_in_forward(graph);
  const auto readers = readers_of(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = rest.values[v];
    if (value.producer != kNone || saved[v] != 0 || readers[v].empty()) continue;
    const auto id = static_cast<ValueId>(v);
    const bool overwritten = !value.external && is_only_overwritten(rest, readers[v], id);
    if (value.external ? !external : released[v] == 0 && !overwritten) continue;
    if (!overwritten && pays(rest, readers, saved, id)) continue;
    result[v] = 1;
    make_roots(rest, readers[v]);
  }
  return result;
}

}  // namespace

std::vector<char> unsaved_roots(const Graph& graph) {
  return roots_not_worth_holding(graph, false, [](auto&&...) { return false; });
}

std::vector<char> idle_roots(const Graph& graph) {
  return roots_not_worth_holding(
      graph, true, [](const Graph& rest, const auto& readers, const std::vector<char>& saved, ValueId root) {
        const int64_t bytes = rest.values[at(root)].external ? 0 : rest.values[at(root)].bytes;
        return saved_behind(rest, readers, saved, root, bytes) > bytes;
      });
}

Graph without(Graph graph, const std::vector<char>& roots) {
  const auto readers = readers_of(graph);
  for (size_t v = 0; v < graph.values.size() && v < roots.size(); ++v) {
    if (roots[v] != 0) make_roots(graph, readers[v]);
  }
  return graph;
}

}  // namespace retrace::plan
