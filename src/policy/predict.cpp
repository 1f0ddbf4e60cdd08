#include "policy/predict.h"

#include <algorithm>

#include <retrace/errors.h>

#include "plan/solve/plan.h"
#include "policy/rules.h"

namespace retrace {
namespace {

using plan::at;
using plan::Choice;
using plan::Choices;
using plan::EventKind;
using plan::kNone;
using plan::ValueId;

// Values that everything made after them depends on and that autograd saves; see tape/cuts.h.
std::vector<ValueId> cut_vertices(const plan::Graph& graph) {
  struct Candidate {
    ValueId value;
    bool saved;
  };
  std::vector<Candidate> stack;
  std::vector<int32_t> made(graph.values.size(), -1);
  const auto read = [&](ValueId v) {
    if (graph.values[at(v)].producer == kNone) return;
    while (!stack.empty() && stack.back().value != v && made[at(stack.back().value)] >= made[at(v)]) stack.pop_back();
  };
  const auto run = [&](const plan::Op& op, int32_t id) {
    for (const plan::Arg& arg : op.args) {
      if (!arg.shape_only) read(arg.value);
    }
    for (const ValueId v : op.fresh) made[at(v)] = id;
    ValueId result = op.fresh.empty() ? kNone : op.fresh.front();
    for (const plan::Arg& arg : op.args) {
      if (arg.becomes == kNone) continue;
      made[at(arg.becomes)] = id;
      if (result != kNone) continue;
      result = arg.becomes;
      if (!stack.empty() && stack.back().value == arg.value) stack.pop_back();
    }
    if (result != kNone && graph.values[at(result)].producer != kNone) stack.push_back({result, false});
  };
  for (const plan::Event& event : graph.events) {
    if (event.kind == EventKind::unpack) break;
    if (event.kind == EventKind::op) run(graph.ops[at(event.id)], event.id);
    if (event.kind != EventKind::save) continue;
    for (Candidate& candidate : stack) candidate.saved |= candidate.value == graph.handles[at(event.id)];
  }
  std::vector<ValueId> cuts;
  for (const Candidate& candidate : stack) {
    if (candidate.saved) cuts.push_back(candidate.value);
  }
  return cuts;
}

Choices choices_of(const plan::Graph& graph, const PolicyRules& rules) {
  Choices choices(graph.values.size());
  if (const int64_t period = rules.cuts().keep_period; period > 0) {
    const std::vector<ValueId> cuts = cut_vertices(graph);
    for (size_t i = static_cast<size_t>(period); i <= cuts.size(); i += static_cast<size_t>(period))
      choices[at(cuts[i - 1])] = Choice::keep();
  }
  if (!rules.looks_at_operators()) return choices;
  for (const plan::Op& op : graph.ops) {
    OpInfo info;
    info.name = op.name;
    if (rules.decide(info) != Decision::keep) continue;
    for (const ValueId v : op.fresh) choices[at(v)] = Choice::keep();
    for (const plan::Arg& arg : op.args) {
      if (arg.becomes != kNone) choices[at(arg.becomes)] = Choice::keep();
    }
  }
  return choices;
}

}  // namespace

plan::Outcome predict(const plan::Graph& graph, const Policy& policy, plan::History* history) {
  const PolicyRules& rules = policy.rules();
  if (rules.budget() != nullptr) {
    throw UsageError("[predict] '" + policy.name() +
                     "' is a budget, which takes a plan: make one with plan::solve() and simulate that.");
  }
  if (!rules.may_drop()) return plan::plain(graph, history);
  plan::Simulator simulator(graph);
  const Choices choices = choices_of(graph, rules);
  return history != nullptr ? simulator.run(choices, *history) : simulator.run(choices, /*event_peaks=*/true);
}

}  // namespace retrace
