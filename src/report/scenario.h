// One step of a tape under one way of running it: plain, under a policy, or by a plan.
#pragma once

#include <optional>
#include <string>

#include <retrace/policy.h>

#include "plan/simulate/history.h"
#include "plan/solve/plan.h"

namespace retrace::report {

enum class ScenarioKind { policy, budget, file };  // budget: a rung of the ladder; file: a plan that was given

struct Scenario {
  std::string name;
  ScenarioKind kind = ScenarioKind::policy;
  plan::Outcome outcome;
  plan::History history;           // with what is live at the peak
  std::optional<plan::Plan> plan;  // it follows, if any
};

Scenario under_policy(const plan::Graph& graph, const Policy& policy);

// `graph` is the one the plan is for, without the roots that it does without.
Scenario under_plan(const plan::Graph& graph, plan::Plan plan, std::string name, ScenarioKind kind);

// The policies that are worth showing for a tape, the plain program first. every:N for N = 1, 2, 4, ... while that
// changes anything.
std::vector<Scenario> under_named_policies(const plan::Graph& graph);

}  // namespace retrace::report
