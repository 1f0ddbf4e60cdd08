#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/graph/roots.h"

namespace retrace::plan {

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> names{"best", "mincut", "chain", "every", "greedy"};
  return names;
}

Answer solve(const Graph& graph, int64_t budget_bytes, const SolveOptions& options) {
  const auto& names = strategies();
  if (std::find(names.begin(), names.end(), options.strategy) == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw UsageError("[solve] no strategy is called '" + options.strategy + "', so nothing was planned. There are " +
                     known + ".");
  }
  const auto begin = std::chrono::steady_clock::now();
  Answer answer = Planner(graph).solve(budget_bytes, options.strategy);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (answer.plan) answer.plan->planning_seconds = taken.count();
  return answer;
}

Outcome plain(const Graph& graph) {
  const Graph as_plain = without(graph, unsaved_roots(graph));
  return Simulator(as_plain).run(keep_saved(as_plain), /*event_peaks=*/true);
}

Outcome smallest(const Graph& graph) {
  const auto again = [](const Graph& g) {
    return Simulator(g).run(Choices(g.values.size(), Choice::rebuild_each_time()), true);
  };
  const Outcome outcomes[] = {again(graph), again(without(graph, idle_roots(graph))), plain(graph)};
  return *std::min_element(std::begin(outcomes), std::end(outcomes),
                           [](const Outcome& a, const Outcome& b) { return a.peak_bytes < b.peak_bytes; });
}

double lower_bound(const Graph& graph, int64_t budget_bytes) { return Planner(graph).lower_bound(budget_bytes); }

}  // namespace retrace::plan
