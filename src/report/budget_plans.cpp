#include "report/budget_plans.h"

#include <chrono>
#include <utility>

#include <retrace/errors.h>

#include "plan/graph/roots.h"
#include "plan/solve/bearable.h"
#include "policy/predict.h"

namespace retrace::report {
namespace {

constexpr double kQuickSeconds = 3;       // of a quick plan for a large tape, as effort
constexpr double kWorthSearching = 0.01;  // of the step, from the bound: there, what a longer search could gain

}  // namespace

// Roots that pay make more possible; without any, no plan needs more than the plain program.
BudgetPlans::BudgetPlans(const plan::Graph& tape, int64_t most_effort, std::stop_token stop)
    : tape_(tape), most_effort_(most_effort), stop_(std::move(stop)) {
  for (const auto& roots : {plan::idle_roots, plan::unsaved_roots})
    forms_.push_back({std::make_shared<plan::Graph>(plan::without(tape, roots(tape))), nullptr});
}

std::optional<BudgetPlan> BudgetPlans::within(int64_t budget_bytes) {
  for (Form& form : forms_) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<plan::Plan> plan =
        is_large(tape_) ? search_large(*form.graph, budget_bytes) : search(form, budget_bytes);
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

std::optional<plan::Plan> BudgetPlans::search_large(const plan::Graph& graph, int64_t budget_bytes) const {
  std::optional<plan::Plan> quick = plan::quick_solve(graph, budget_bytes, plan::events_in(kQuickSeconds), stop_);
  if (!quick || quick->seconds - quick->bound_seconds < kWorthSearching * graph.seconds) return quick;
  std::optional<plan::Plan> searched =
      plan::solve(graph, budget_bytes, {.known = quick->choices, .stop = stop_, .most_effort = most_effort_}).plan;
  return searched ? searched : quick;
}

plan::Outcome BudgetPlans::smallest() const {
  if (!is_large(tape_)) return plan::smallest(tape_);
  plan::Outcome smallest = plan::plain(tape_);
  for (const Policy& policy : {every(1), every(4), every(16), recompute_all()}) {
    plan::Outcome outcome = predict(tape_, policy);
    if (outcome.peak_bytes < smallest.peak_bytes) smallest = std::move(outcome);
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
