#include "report/budget_plans.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include <retrace/errors.h>

#include "plan/graph/roots.h"
#include "plan/simulate/history.h"
#include "plan/solve/bearable.h"
#include "policy/predict.h"

namespace retrace::report {
namespace {

constexpr double kQuickSeconds = 3;       // of a quick plan for a large tape, as effort
constexpr double kWorthSearching = 0.01;  // of the step, from the bound: there, what a longer search could gain

// Of a long step, those that are tried for the lowest peak.
std::vector<Policy> lean_policies() { return {every(1), every(4), every(16), recompute_all()}; }

}  // namespace

// Roots that pay make more possible; without any, no plan needs more than the plain program.
BudgetPlans::BudgetPlans(const plan::Graph& tape, int64_t most_effort, std::stop_token stop)
    : tape_(tape), most_effort_(most_effort), stop_(std::move(stop)) {
  for (const auto& roots : {plan::idle_roots, plan::unsaved_roots})
    forms_.push_back({std::make_shared<plan::Graph>(plan::without(tape, roots(tape))), nullptr, std::nullopt});
}

std::optional<BudgetPlan> BudgetPlans::within(int64_t budget_bytes) {
  for (Form& form : forms_) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<plan::Plan> plan = is_large(tape_) ? search_large(form, budget_bytes) : search(form, budget_bytes);
    if (!plan) continue;
    plan->planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return BudgetPlan{form.graph, std::move(*plan)};
  }
  // More memory is never refused where less was enough.
  if (is_large(tape_) && budget_bytes > lowest_policy_peak()) return within(lowest_policy_peak());
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
  if (quick) {
    known = quick->choices;
  } else if (const Lean& lean = lean_of(form); lean.outcome.peak_bytes <= budget_bytes) {
    known = lean.choices;
  } else {
    return std::nullopt;
  }
  std::optional<plan::Plan> searched =
      plan::solve(graph, budget_bytes, {.known = std::move(known), .stop = stop_, .most_effort = most_effort_}).plan;
  return searched ? searched : quick;
}

// What a named policy keeps, as a plan: the one of the lowest peak.
const BudgetPlans::Lean& BudgetPlans::lean_of(const Form& form) const {
  const std::lock_guard lock(mutex_);
  if (form.lean) return *form.lean;
  const plan::Graph& graph = *form.graph;
  for (const Policy& policy : lean_policies()) {
    plan::History history;
    predict(graph, policy, &history);
    Lean lean{.choices = plan::Choices(graph.values.size())};
    for (size_t v = 0; v < lean.choices.size(); ++v) {
      if (history.fates[v] == plan::History::Fate::kept) lean.choices[v] = plan::Choice::keep();
    }
    lean.outcome = plan::Simulator(graph).run(lean.choices, true);
    if (!form.lean || lean.outcome.peak_bytes < form.lean->outcome.peak_bytes) form.lean = std::move(lean);
  }
  return *form.lean;
}

int64_t BudgetPlans::lowest_policy_peak() const {
  const std::lock_guard lock(mutex_);
  if (lowest_policy_peak_) return *lowest_policy_peak_;
  int64_t lowest = plan::plain(tape_).peak_bytes;
  for (const Policy& policy : lean_policies()) lowest = std::min(lowest, predict(tape_, policy).peak_bytes);
  return *(lowest_policy_peak_ = lowest);
}

plan::Outcome BudgetPlans::smallest() {
  if (!is_large(tape_)) return plan::smallest(tape_);
  if (const std::optional<BudgetPlan> found = within(lowest_policy_peak())) {
    plan::Outcome outcome = plan::Simulator(*found->graph).run(found->plan.choices, true);
    outcome.peak_bytes = lowest_policy_peak();
    return outcome;
  }
  plan::Outcome smallest = plan::plain(tape_);
  for (const Form& form : forms_) {
    if (lean_of(form).outcome.peak_bytes < smallest.peak_bytes) smallest = lean_of(form).outcome;
  }
  return smallest;
}

int64_t BudgetPlans::bearable_bytes() const {
  if (is_large(tape_)) return lowest_policy_peak();
  return plan::bearable(*forms_.front().graph).peak_bytes;
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
