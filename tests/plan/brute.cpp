#include "plan/brute.h"

namespace retrace::plan {
namespace {

// What can be chosen for a value.
std::vector<Choice> choices_of(const Value& value, bool keepable) {
  if (value.producer == kNone) return {Choice::rebuild()};
  return all_choices(keepable ? value.way_count() : 0);
}

}  // namespace

std::optional<std::vector<Tried>> try_all(const Graph& graph, int64_t most) {
  const std::vector<bool> can = keepable(graph);
  std::vector<std::vector<Choice>> all;
  int64_t count = 1;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    all.push_back(choices_of(graph.values[v], can[v]));
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
