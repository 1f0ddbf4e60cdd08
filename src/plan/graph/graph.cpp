#include "plan/graph/graph.h"

#include <algorithm>

namespace retrace::plan {

const std::string& Value::kind_of(int way) const {
  static const std::string as_it_is = "as it is";
  return way == kAsItIs ? as_it_is : ways[at(way - 1)].kind;
}

size_t first_unpack(const Graph& graph) {
  const auto found = std::find_if(graph.events.begin(), graph.events.end(),
                                  [](const Event& e) { return e.kind == EventKind::unpack; });
  return static_cast<size_t>(found - graph.events.begin());
}

const Backward* backward_at(const Graph& graph, int32_t event) {
  const auto after = std::upper_bound(graph.backwards.begin(), graph.backwards.end(), event,
                                      [](int32_t e, const Backward& b) { return e < b.begin; });
  return after != graph.backwards.begin() && event < (after - 1)->end ? &*(after - 1) : nullptr;
}

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

size_t storage_count(const Graph& graph) {
  int32_t last = kNone;
  for (const Value& v : graph.values) last = std::max(last, v.storage);
  return at(last + 1);
}

std::vector<bool> keepable(const Graph& graph) {
  const size_t count = graph.values.size();
  std::vector<bool> wanted(count), overwritten(count);
  for (const ValueId v : graph.handles) wanted[at(v)] = true;
  for (const Op& op : graph.ops) {
    for (const Arg& arg : op.args) {
      if (!arg.shape_only) wanted[at(arg.value)] = true;
      if (arg.becomes != kNone) overwritten[at(arg.value)] = true;
    }
  }
  // Values are numbered as they came. A later content of the same storage replaced it, whoever wrote that.
  std::vector<bool> storage_taken(storage_count(graph));
  for (size_t i = count; i-- > 0;) {
    if (graph.values[i].storage == kNone) continue;
    const auto storage = at(graph.values[i].storage);
    if (storage_taken[storage]) overwritten[i] = true;
    storage_taken[storage] = true;
  }
  std::vector<bool> result(count);
  for (size_t i = 0; i < count; ++i) {
    result[i] = graph.values[i].producer != kNone && wanted[i] && !overwritten[i];
  }
  return result;
}

std::vector<Choice> all_choices(int ways) {
  std::vector<Choice> result;
  for (int way = 0; way < ways; ++way) result.push_back(Choice::hold(way));
  result.push_back(Choice::rebuild());
  result.push_back(Choice::rebuild_each_time());
  return result;
}

}  // namespace retrace::plan
