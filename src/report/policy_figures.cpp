#include "report/policy_figures.h"

#include <cmath>

#include <retrace/budget.h>

#include "plan/graph/roots.h"
#include "plan/simulate/history.h"
#include "policy/predict.h"
#include "policy/rules.h"
#include "report/step_times.h"

namespace retrace::report {
namespace {

PolicyFigures fill(const plan::Graph& graph, std::string name, plan::Outcome outcome, plan::History history) {
  PolicyFigures figures;
  figures.policy = std::move(name);
  figures.peak_bytes = outcome.peak_bytes;
  figures.peak_event = outcome.peak_event;
  figures.at_peak = outcome.at_peak;
  figures.extra_seconds = outcome.replay_seconds;
  figures.step_seconds = graph.seconds + outcome.replay_seconds;
  figures.ops_again = outcome.ops_replayed;
  for (const plan::History::Rebuild& rebuild : history.rebuilds) {
    RunAgain& again = figures.again[graph.ops[plan::at(rebuild.op)].name];
    ++again.times;
    again.seconds += rebuild.seconds;
  }
  figures.average_bytes = StepTimes(graph, history.replay_seconds).average(outcome.event_peaks);
  figures.event_peaks = std::move(outcome.event_peaks);
  figures.event_extra_seconds = std::move(history.replay_seconds);
  return figures;
}

// Roots that pay make more possible; without them no plan needs more than the plain program.
std::optional<plan::Graph> first_that_fits(const plan::Graph& graph, int64_t budget_bytes, const std::stop_token& stop,
                                           std::optional<plan::Plan>& plan) {
  for (auto roots : {&plan::idle_roots, &plan::unsaved_roots}) {
    plan::Graph held = plan::without(graph, roots(graph));
    if (held.ops.size() > kLargeTape && !plan::quick_solve(held, budget_bytes, plan::kUnlimited, stop)) continue;
    plan = plan::solve(held, budget_bytes, {.stop = stop}).plan;
    if (plan) return held;
  }
  return std::nullopt;
}

void fill_smallest(const plan::Graph& graph, PolicyFigures& figures) {
  plan::Outcome smallest = graph.ops.size() > kLargeTape ? plan::plain(graph) : plan::smallest(graph);
  if (graph.ops.size() > kLargeTape) {
    for (const Policy& policy : {every(1), every(4), every(16), recompute_all()}) {
      plan::Outcome outcome = predict(graph, policy);
      if (outcome.peak_bytes < smallest.peak_bytes) smallest = std::move(outcome);
    }
  }
  figures.smallest_bytes = smallest.peak_bytes;
  figures.smallest_at_peak = smallest.at_peak;
}

int64_t bytes_of(const Budget& budget, const plan::Graph& graph) {
  if (budget.bytes()) return *budget.bytes();
  return static_cast<int64_t>(std::floor(*budget.fraction() * static_cast<double>(plan::plain(graph).peak_bytes)));
}

}  // namespace

PolicyFigures figures_within(const plan::Graph& graph, int64_t budget_bytes, const std::stop_token& stop) {
  std::optional<plan::Plan> plan;
  const std::optional<plan::Graph> held = first_that_fits(graph, budget_bytes, stop, plan);
  PolicyFigures figures;
  if (held) {
    plan::History history;
    plan::Outcome outcome = plan::Simulator(*held).run(plan->choices, history);
    figures = fill(*held, "", std::move(outcome), std::move(history));
    figures.plan = std::move(plan);
  } else {
    figures.fits = false;
    fill_smallest(graph, figures);
  }
  figures.policy = "budget:" + retrace::budget(budget_bytes).text();
  figures.budget_bytes = budget_bytes;
  return figures;
}

PolicyFigures figures_of(const plan::Graph& graph, const Policy& policy, const std::stop_token& stop) {
  if (const Budget* const budget = policy.rules().budget()) {
    PolicyFigures figures = figures_within(graph, bytes_of(*budget, graph), stop);
    figures.policy = policy.name();
    return figures;
  }
  plan::History history;
  plan::Outcome outcome = predict(graph, policy, &history);
  return fill(graph, policy.name(), std::move(outcome), std::move(history));
}

}  // namespace retrace::report
