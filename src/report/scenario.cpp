#include "report/scenario.h"

#include "policy/parse.h"
#include "policy/predict.h"

namespace retrace::report {
namespace {

constexpr int64_t kLargestPeriod = 64;

bool same(const plan::Outcome& a, const plan::Outcome& b) {
  return a.peak_bytes == b.peak_bytes && a.ops_replayed == b.ops_replayed;
}

}  // namespace

Scenario under_policy(const plan::Graph& graph, const Policy& policy) {
  Scenario scenario;
  scenario.name = policy.name();
  // Where the peak is must be known before what is live there can be listed.
  scenario.history.live_event = predict(graph, policy).peak_event;
  scenario.outcome = predict(graph, policy, &scenario.history);
  return scenario;
}

Scenario under_plan(const plan::Graph& graph, plan::Plan plan, std::string name, ScenarioKind kind) {
  Scenario scenario;
  scenario.name = std::move(name);
  scenario.kind = kind;
  plan::Simulator simulator(graph);
  scenario.history.live_event = simulator.run(plan.choices).peak_event;
  scenario.outcome = simulator.run(plan.choices, scenario.history);
  scenario.plan = std::move(plan);
  return scenario;
}

std::vector<Scenario> under_named_policies(const plan::Graph& graph) {
  std::vector<Scenario> all;
  all.push_back(under_policy(graph, keep_all()));
  all.back().name = "full";
  for (int64_t period = 1; period <= kLargestPeriod; period *= 2) {
    Scenario next = under_policy(graph, every(period));
    if (period > 1 && same(next.outcome, all.back().outcome)) break;
    all.push_back(std::move(next));
  }
  for (const char* name : {"selective", "recompute_all"}) all.push_back(under_policy(graph, parse_policy(name, graph)));
  return all;
}

}  // namespace retrace::report
