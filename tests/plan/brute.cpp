#include "plan/brute.h"

#include <algorithm>

namespace retrace::plan {
namespace {

// What can be chosen for a value. For one that nobody reads after it was saved there is nothing to hold: never `again`.
std::vector<Choice> ways(const Graph& graph, const std::vector<bool>& keepable, ValueId v) {
  const auto id = static_cast<size_t>(v);
  if (graph.values[id].producer == kNone) return {Choice::rebuild};
  std::vector<Choice> result{Choice::rebuild, Choice::again};
  if (keepable[id]) result.push_back(Choice::keep);
  if (keepable[id] && graph.values[id].encoding.bytes > 0) result.push_back(Choice::encode);
  return result;
}

}  // namespace

std::optional<std::vector<Tried>> try_all(const Graph& graph, int64_t most) {
  const std::vector<bool> can = keepable(graph);
  std::vector<std::vector<Choice>> all;
  int64_t count = 1;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    all.push_back(ways(graph, can, static_cast<ValueId>(v)));
    count *= static_cast<int64_t>(all.back().size());
    if (count > most) return std::nullopt;
  }
  Simulator simulator(graph);
  std::vector<Tried> result;
  std::vector<size_t> digits(all.size());
  for (int64_t i = 0; i < count; ++i) {
    Choices choices;
    for (size_t v = 0; v < all.size(); ++v) choices.push_back(all[v][digits[v]]);
    const Outcome outcome = simulator.run(choices);
    result.push_back({outcome.peak_bytes, outcome.replay_seconds});
    for (size_t v = 0; v < all.size() && ++digits[v] == all[v].size(); ++v) digits[v] = 0;
  }
  return result;
}

std::optional<double> best_of(const std::vector<Tried>& tried, int64_t budget_bytes) {
  std::optional<double> best;
  for (const Tried& t : tried) {
    if (t.peak_bytes <= budget_bytes && (!best || t.seconds < *best)) best = t.seconds;
  }
  return best;
}

}  // namespace retrace::plan
