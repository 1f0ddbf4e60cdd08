#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

#include "plan/graph/roots.h"
#include "plan/solve/plan.h"
#include "plan/solve/planner.h"
#include "plan/solve/strategies.h"

namespace retrace::plan {

namespace {

void expect_known(const std::string& name) {
  const auto& names = strategies();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  throw UsageError("[solve] no strategy is called '" + name + "', so nothing was planned. There are " + known + ".");
}

}  // namespace

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{kBest};
    for (const Strategy& strategy : all_strategies()) all.emplace_back(strategy.name);
    return all;
  }();
  return names;
}

Answer solve(const Graph& graph, int64_t budget_bytes, const SolveOptions& options) {
  expect_known(options.strategy);
  for (const std::string& name : options.without) expect_known(name);
  const auto begin = std::chrono::steady_clock::now();
  Answer answer = Planner(graph, options).solve(budget_bytes);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (answer.plan) answer.plan->planning_seconds = taken.count();
  return answer;
}

namespace {

// In a long chain every value would be rebuilt from the beginning, in the square of its length. After so many
// operators: the lowest of the peaks that segments between cut vertices have.
constexpr double kMostReplayed = 5e6;

Outcome lowest_by_segments(const Graph& graph) {
  Effort effort;
  SolverContext context(graph, effort, Search::Runs::whole);
  const Candidate lowest = lowest_of_segments(context, Choice::rebuild_each_time());
  return lowest.choices.empty() ? plain(graph) : Simulator(graph).run(lowest.choices, /*event_peaks=*/true);
}

}  // namespace

Outcome smallest(const Graph& graph) {
  const auto each_time = [](const Graph& g) {
    double op_seconds = 0;
    for (const Op& op : g.ops) op_seconds += op.seconds;
    const double most_seconds = op_seconds * kMostReplayed / static_cast<double>(g.ops.size() + 1);
    Outcome outcome = Simulator(g).run(Choices(g.values.size(), Choice::rebuild_each_time()), /*event_peaks=*/true,
                                       INT64_MAX, most_seconds);
    return outcome.gave_up ? lowest_by_segments(g) : outcome;
  };
  const Outcome outcomes[] = {each_time(graph), each_time(without(graph, idle_roots(graph))), plain(graph)};
  return *std::min_element(std::begin(outcomes), std::end(outcomes),
                           [](const Outcome& a, const Outcome& b) { return a.peak_bytes < b.peak_bytes; });
}

Plan plan_of(const Graph& graph, Choices choices, int64_t budget_bytes, std::string strategy, double bound_seconds) {
  const Outcome outcome = Simulator(graph).run(choices);
  Plan plan;
  plan.strategy = std::move(strategy);
  plan.choices = std::move(choices);
  plan.held = held_values(plan.choices, graph);
  plan.signature = graph.signature;
  plan.budget_bytes = budget_bytes;
  plan.peak_bytes = outcome.peak_bytes;
  plan.at_peak = outcome.at_peak;
  plan.replay_seconds = outcome.replay_seconds;
  plan.seconds = graph.seconds + outcome.replay_seconds;
  plan.bound_seconds = graph.seconds + bound_seconds;
  return plan;
}

}  // namespace retrace::plan
