#include "session/step_profile.h"

#include <algorithm>

#include "report/median.h"

namespace retrace {
namespace {

constexpr size_t kStepsTimed = 9;  // a machine's speed changes: older times tell nothing about the next step

constexpr double kWorthEvicting = 0.01;  // of the step: a plan is followed exactly, eviction is another every time

constexpr const char* kEviction = "eviction";

// How each value is held that a plan does not hold as it is.
std::shared_ptr<const store::Kinds> kinds_of(const plan::Plan& plan, const plan::Graph& graph) {
  auto kinds = std::make_shared<store::Kinds>(graph.values.size());
  for (size_t v = 0; v < std::min(kinds->size(), plan.choices.size()); ++v) {
    const plan::Choice choice = plan.choices[v];
    if (!choice.holds() || choice.way() == plan::kAsItIs) continue;
    (*kinds)[v] = store::find_kind(graph.values[v].ways.at(static_cast<size_t>(choice.way() - 1)).kind);
  }
  return kinds;
}

}  // namespace

StepProfile::StepProfile(Timeline& timeline, const StepStart& begin)
    : graph(std::make_shared<const plan::Graph>(timeline.take_graph())),
      prefix_hashes(std::make_shared<const std::vector<uint64_t>>(timeline.prefix_hashes())),
      start(begin),
      seconds(graph->seconds) {}

void StepProfile::learn(const BudgetedStep& step, Timeline& timeline, const StepStart& begin) {
  ++seen;
  if (!timed) step_seconds.clear();
  if (step_seconds.size() == kStepsTimed) step_seconds.erase(step_seconds.begin());
  step_seconds.push_back(timeline.seconds());
  seconds = median(step_seconds);
  if (!timeline.follows()) learn_graph(timeline, begin);
  learn_plan(step, timeline.peak_bytes(), begin);
}

void StepProfile::learn_graph(Timeline& timeline, const StepStart& begin) {
  plan::Graph latest = timeline.take_graph();
  shortcuts.resize(latest.ops.size());
  for (const auto& [op, seconds] : timeline.shortcuts()) {
    double& shortest = shortcuts[static_cast<size_t>(op)];
    shortest = shortest > 0 ? std::min(shortest, seconds) : seconds;
  }
  if (latest.ops.size() == graph->ops.size()) {
    for (size_t i = 0; i < latest.ops.size(); ++i) {
      plan::Op& op = latest.ops[i];
      op.seconds = std::min(op.seconds, graph->ops[i].seconds);
      const double estimate = std::min(op.shortcut_seconds, graph->ops[i].shortcut_seconds);
      op.shortcut_seconds = shortcuts[i] > 0 ? shortcuts[i] : estimate;
    }
    for (size_t v = 0; v < std::min(latest.values.size(), graph->values.size()); ++v) {
      if (latest.values[v].ways.empty()) latest.values[v].ways = graph->values[v].ways;
    }
  }
  latest.seconds = seconds;
  graph = std::make_shared<const plan::Graph>(std::move(latest));
  start = begin;
}

void StepProfile::learn_plan(const BudgetedStep& step, int64_t peak_bytes, const StepStart& begin) {
  Planned* const planned = std::get_if<Planned>(&state);
  const bool tried = planned && step.plan() == planned->plan;
  const auto predicted = static_cast<double>(planned ? planned->peak_bytes(begin) : 0);
  const auto peak = static_cast<double>(peak_bytes);
  if (is_evicting()) {
    as_predicted = !step.plan() && step.most_wanted_bytes() == 0;
  } else if (tried && step.kept_to_plan()) {
    as_predicted = step.evictions() == 0 && peak <= predicted && peak >= 0.995 * predicted;
  }
  if (tried) planned->followed = true;
  // The first step verifies, looks for encodings and evicts, and the first that follows a plan verifies: operators run
  // with cold caches then. Times without that come with the next one, and are worth one plan more.
  const bool undisturbed = as_predicted && (tried || is_evicting()) && !step.plan_is_new();
  better_timed |= undisturbed && !timed;
  timed |= undisturbed;
}

void StepProfile::learn_eviction(const BudgetedStep& step, int64_t peak_bytes, double replay_seconds,
                                 const StepStart& begin) {
  if (!step.plan() && step.most_wanted_bytes() == 0 && !step.only_measures())
    eviction = {replay_seconds, peak_bytes, begin.bytes, step.given_bytes()};
}

void StepProfile::predict_eviction(int64_t budget_bytes, const StepStart& begin) {
  if (can_evict_within(budget_bytes)) return;
  const int64_t shift = begin.bytes - start.bytes;
  const plan::Outcome outcome = plan::by_eviction(*graph, budget_bytes - shift);
  if (outcome.peak_bytes > budget_bytes - shift) return;
  eviction = {outcome.replay_seconds, outcome.peak_bytes + shift, begin.bytes, budget_bytes};
}

// Close to the smallest budget the only plan may be to rebuild everything every time. If eviction has done better, it
// is expected to do as well again, whatever else is live by now.
void StepProfile::adopt(FoundPlan found, const StepStart& begin, bool in_background) {
  const plan::Plan& plan = found.plan;
  if (can_evict_within(plan.budget_bytes) &&
      eviction->replay_seconds + kWorthEvicting * graph->seconds < plan.replay_seconds)
    return go_by_eviction(plan.bound_seconds - (plan.seconds - plan.replay_seconds), plan.planning_seconds);
  as_predicted = true;
  Planned planned;
  planned.kinds = kinds_of(plan, *graph);
  planned.unheld_roots = std::make_shared<const std::vector<char>>(std::move(found.unheld_roots));
  planned.plan = std::make_shared<const plan::Plan>(std::move(found.plan));
  planned.start_bytes = begin.bytes;
  planned.in_background = in_background;
  state = std::move(planned);
}

bool StepProfile::can_evict_within(int64_t budget_bytes) const {
  return eviction && eviction->budget_bytes <= budget_bytes;
}

void StepProfile::go_by_eviction(double bound_replay_seconds, double planning_seconds) {
  as_predicted = true;
  state = Evicting{bound_replay_seconds, planning_seconds};
}

size_t StepProfile::host_bytes() const {
  const size_t choices = planned() ? planned()->plan->choices.size() * 4 : 0;
  return graph->ops.size() * 200 + graph->values.size() * sizeof(plan::Value) +
         graph->events.size() * sizeof(plan::Event) + prefix_hashes->size() * sizeof(uint64_t) + choices;
}

PlanSummary StepProfile::summary(int64_t budget_bytes, const StepStart& begin) const {
  PlanSummary s;
  double bound_replay_seconds = 0;
  if (const Planned* const p = planned()) {
    s = plan::summarize(*p->plan, *graph);
    s.peak_bytes = p->peak_bytes(begin);
    s.in_background = p->in_background;
    bound_replay_seconds = p->plan->bound_seconds - (p->plan->seconds - p->plan->replay_seconds);
  } else if (const Evicting* const e = std::get_if<Evicting>(&state)) {
    s.strategy = kEviction;
    s.planning_seconds = e->planning_seconds;
    bound_replay_seconds = e->bound_replay_seconds;
    if (eviction) {
      s.replay_seconds = eviction->replay_seconds;
      s.peak_bytes = std::min(budget_bytes, eviction->peak_bytes + begin.bytes - eviction->start_bytes);
    }
  }
  s.budget_bytes = budget_bytes;
  // What the step takes without rebuilding has become better known since the plan was made.
  s.seconds = seconds + s.replay_seconds;
  s.bound_seconds = seconds + std::min(bound_replay_seconds, s.replay_seconds);
  s.gap = s.seconds > 0 ? (s.seconds - s.bound_seconds) / s.seconds : 0;
  return s;
}

}  // namespace retrace
