#include "report/policy_figures.h"

#include <cmath>

#include <retrace/budget.h>

#include "plan/simulate/history.h"
#include "policy/predict.h"
#include "policy/rules.h"
#include "report/budget_plans.h"
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

std::string name_of(int64_t budget_bytes) { return "budget:" + retrace::budget(budget_bytes).text(); }

int64_t bytes_of(const Budget& budget, const plan::Graph& graph) {
  if (budget.bytes()) return *budget.bytes();
  return static_cast<int64_t>(std::floor(*budget.fraction() * static_cast<double>(plan::plain(graph).peak_bytes)));
}

}  // namespace

PolicyFigures figures_by(const plan::Graph& graph, const plan::Plan& plan) {
  plan::History history;
  plan::Outcome outcome = plan::Simulator(graph).run(plan.choices, history);
  PolicyFigures figures = fill(graph, name_of(plan.budget_bytes), std::move(outcome), std::move(history));
  figures.plan = plan;
  figures.budget_bytes = plan.budget_bytes;
  return figures;
}

PolicyFigures figures_within(const plan::Graph& graph, int64_t budget_bytes, const std::stop_token& stop) {
  BudgetPlans plans(graph, plan::kUnlimited, stop);
  if (const std::optional<BudgetPlan> found = plans.within(budget_bytes)) return figures_by(*found->graph, found->plan);
  const plan::Outcome smallest = plans.smallest();
  PolicyFigures figures;
  figures.fits = false;
  figures.smallest_bytes = smallest.peak_bytes;
  figures.smallest_at_peak = smallest.at_peak;
  figures.policy = name_of(budget_bytes);
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
