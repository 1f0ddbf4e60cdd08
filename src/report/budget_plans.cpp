#include "report/budget_plans.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <retrace/errors.h>

#include "plan/graph/roots.h"
#include "plan/simulate/history.h"
#include "plan/solve/bearable.h"
#include "policy/predict.h"
#include "report/parallel.h"

namespace retrace::report {
namespace {

constexpr double kQuickSeconds = 3;       // of a quick plan for a large tape, as effort
constexpr double kWorthSearching = 0.01;  // of the step, from the bound: there, what a longer search could gain

// What a named policy keeps, as choices: those of the lowest peak.
BudgetPlans::Lean leanest(const plan::Graph& graph) {
  std::vector<BudgetPlans::Lean> all(4);
  const std::vector<Policy> policies{every(1), every(4), every(16), every(64)};
  in_parallel(all.size(), [&](size_t i) {
    plan::History history;
    predict(graph, policies[i], &history);
    all[i].choices.resize(graph.values.size());
    for (size_t v = 0; v < all[i].choices.size(); ++v) {
      if (history.fates[v] == plan::History::Fate::kept) all[i].choices[v] = plan::Choice::keep();
    }
    all[i].outcome = plan::Simulator(graph).run(all[i].choices, true);
  });
  return std::move(*std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.outcome.peak_bytes < b.outcome.peak_bytes;
  }));
}

}  // namespace

// Roots that pay make more possible; without any, no plan needs more than the plain program.
BudgetPlans::BudgetPlans(const plan::Graph& tape, int64_t most_effort, std::stop_token stop)
    : tape_(tape), most_effort_(most_effort), stop_(std::move(stop)) {
  for (const auto& roots : {plan::idle_roots, plan::unsaved_roots}) {
    Form& form = forms_.emplace_back();
    form.graph = std::make_shared<plan::Graph>(plan::without(tape, roots(tape)));
    if (is_large(tape)) form.lean = leanest(*form.graph);
  }
}

std::optional<BudgetPlan> BudgetPlans::within(int64_t budget_bytes) {
  for (Form& form : forms_) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<plan::Plan> plan = is_large(tape_) ? search_large(form, budget_bytes) : search(form, budget_bytes);
    if (!plan) continue;
    plan->planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return BudgetPlan{form.graph, std::move(*plan)};
  }
  return std::nullopt;
}

std::optional<plan::Plan> BudgetPlans::search(Form& form, int64_t budget_bytes) {
  if (form.planner) {
    form.planner->renew_effort();
  } else {
    form.planner =
        std::make_unique<plan::Planner>(*form.graph, plan::SolveOptions{.stop = stop_, .most_effort = most_effort_});
  }
  return form.planner->solve(budget_bytes).plan;
}

std::optional<plan::Plan> BudgetPlans::search_large(const Form& form, int64_t budget_bytes) const {
  const plan::Graph& graph = *form.graph;
  std::optional<plan::Plan> quick = plan::quick_solve(graph, budget_bytes, plan::events_in(kQuickSeconds), stop_);
  if (quick && quick->seconds - quick->bound_seconds < kWorthSearching * graph.seconds) return quick;
  plan::Choices known;
  if (quick) known = quick->choices;
  if (!quick) {
    if (form.lean.outcome.peak_bytes > budget_bytes) return std::nullopt;
    known = form.lean.choices;
  }
  std::optional<plan::Plan> searched =
      plan::solve(graph, budget_bytes, {.known = std::move(known), .stop = stop_, .most_effort = most_effort_}).plan;
  return searched ? searched : quick;
}

plan::Outcome BudgetPlans::smallest() const {
  if (!is_large(tape_)) return plan::smallest(tape_);
  plan::Outcome smallest = plan::plain(tape_);
  for (const Form& form : forms_) {
    if (form.lean.outcome.peak_bytes < smallest.peak_bytes) smallest = form.lean.outcome;
  }
  return smallest;
}

int64_t BudgetPlans::bearable_bytes() const {
  if (is_large(tape_)) return smallest().peak_bytes;
  const std::optional<plan::Plan> bearable = plan::bearable(*forms_.front().graph);
  return bearable ? bearable->peak_bytes : plan::plain(tape_).peak_bytes;
}

plan::Graph graph_of(const plan::Plan& plan, const plan::Graph& tape) {
  for (const auto& roots : {plan::idle_roots, plan::unsaved_roots}) {
    plan::Graph graph = plan::without(tape, roots(tape));
    try {
      plan::verify(plan, graph);
      return graph;
    } catch (const InternalError&) {
    }
  }
  plan::verify(plan, tape);
  return tape;
}

}  // namespace retrace::report
