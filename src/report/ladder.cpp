#include "report/ladder.h"

#include <algorithm>
#include <optional>

#include <retrace/errors.h>

#include "plan/graph/lifetimes.h"
#include "plan/graph/roots.h"
#include "plan/simulate/effort.h"

namespace retrace::report {
namespace {

constexpr double kQuickSeconds = 1, kSearchSeconds = 0.15;  // per rung, as effort
constexpr double kBearable = 3;                             // times the step's seconds, rebuilding
constexpr int kBisections = 8;
constexpr double kWorthSearching = 0.01;  // of the step, from the bound

using Graphs = std::vector<std::shared_ptr<const plan::Graph>>;

// As a session plans: roots that pay are held; without any, no plan needs more than the plain program.
Graphs forms(const plan::Graph& tape) {
  return {std::make_shared<plan::Graph>(plan::without(tape, plan::idle_roots(tape))),
          std::make_shared<plan::Graph>(plan::without(tape, plan::unsaved_roots(tape)))};
}

std::optional<plan::Plan> best_plan(const plan::Graph& graph, int64_t budget_bytes) {
  std::optional<plan::Plan> quick = plan::quick_solve(graph, budget_bytes, plan::events_in(kQuickSeconds));
  if (quick && quick->seconds - quick->bound_seconds < kWorthSearching * graph.seconds) return quick;
  if (!quick) return std::nullopt;
  std::optional<plan::Plan> searched =
      plan::solve(graph, budget_bytes, {.known = quick->choices, .most_effort = plan::events_in(kSearchSeconds)}).plan;
  return searched && searched->replay_seconds < quick->replay_seconds ? searched : quick;
}

// The smallest budget for which a quick plan is found that does not make the step many times as long. Not below what is live
// whatever is kept.
int64_t least_budget(const plan::Graph& graph, int64_t most_bytes) {
  const std::vector<int64_t> base = plan::Lifetimes(graph).base();
  int64_t too_small = base.empty() ? 0 : *std::max_element(base.begin(), base.end()) - 1, enough = most_bytes;
  for (int i = 0; i < kBisections && enough - too_small > most_bytes / 100; ++i) {
    const int64_t middle = too_small + (enough - too_small) / 2;
    const auto plan = plan::quick_solve(graph, middle, plan::events_in(kQuickSeconds));
    const bool is_bearable = plan && plan->replay_seconds <= kBearable * graph.seconds;
    (is_bearable ? enough : too_small) = is_bearable ? plan->peak_bytes : middle;
  }
  return enough;
}

std::optional<Rung> plan_within(const Graphs& graphs, int64_t budget_bytes) {
  for (const auto& graph : graphs) {
    if (auto plan = best_plan(*graph, budget_bytes)) return Rung{graph, std::move(*plan)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Rung> ladder(const plan::Graph& graph, int rungs, const std::function<void(int)>& each) {
  const auto graphs = forms(graph);
  const int64_t most = plan::plain(graph).peak_bytes, least = least_budget(*graphs.front(), most);
  std::vector<Rung> found;
  for (int i = 0; i < rungs; ++i) {
    each(i);
    const int64_t budget_bytes = i == rungs - 1 ? most : least + (most - least) / (rungs - 1) * i;
    std::optional<Rung> rung = plan_within(graphs, budget_bytes);
    if (!rung) continue;
    if (!found.empty() && found.back().plan.replay_seconds <= rung->plan.replay_seconds) {
      const double bound_seconds = rung->plan.bound_seconds;
      rung = found.back();
      rung->plan.bound_seconds = bound_seconds;
    }
    rung->plan.budget_bytes = budget_bytes;
    found.push_back(std::move(*rung));
  }
  return found;
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
