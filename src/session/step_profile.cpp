#include "session/step_profile.h"

#include <algorithm>

#include <cstdio>
#include <cstdlib>
#include <set>
#include "plan/graph/roots.h"
#include "plan/simulate/history.h"
#include "plan/simulate/simulator.h"
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
  const auto raw = graph;
  const auto before = getenv("DBGP") && planned()
                          ? std::make_shared<const plan::Graph>(plan::without(*graph, *planned()->unheld_roots))
                          : graph;
  const auto old_start = start;
  const bool fresh = !timeline.follows();
  if (!timeline.follows()) learn_graph(timeline, begin);
  if (const Planned* const pl = planned(); getenv("DBGP") && pl && step.plan() == pl->plan && step.kept_to_plan() &&
                                           pl->peak_bytes(begin) != timeline.peak_bytes()) {
    const auto& ch = pl->plan->choices;
    const auto o1 = plan::Simulator(*before).run(ch, true), o2 = plan::Simulator(*graph).run(ch, true);
    std::fprintf(stderr,
                 "DBGP peak %ld predicted %ld fresh %d start %ld planstart %ld graphstart %ld; sim(old) %ld@%zu "
                 "sim(new) %ld@%zu of %zu events %zu\n",
                 (long)timeline.peak_bytes(), (long)pl->peak_bytes(begin), fresh, (long)begin.bytes,
                 (long)pl->start_bytes, (long)old_start.bytes, (long)o1.peak_bytes, o1.peak_event, (long)o2.peak_bytes,
                 o2.peak_event, before->events.size(), graph->events.size());
    for (size_t v = 0; v < pl->unheld_roots->size(); ++v)
      if ((*pl->unheld_roots)[v]) std::fprintf(stderr, " unheld v%zu", v);
    std::fprintf(stderr, "\n");
    if (fresh) {
      const auto& g = *graph;
      for (size_t e = 0; e < std::min(before->events.size(), g.events.size()); ++e) {
        const auto &a = before->events[e], &b = g.events[e];
        if (a.kind != b.kind || a.id != b.id) {
          std::fprintf(stderr, " events differ at %zu: kind %d/%d id %d/%d\n", e, (int)a.kind, (int)b.kind, a.id, b.id);
          break;
        }
        if (a.other_bytes - old_start.bytes != b.other_bytes - begin.bytes ||
            a.other_peak - old_start.bytes != b.other_peak - begin.bytes)
          std::fprintf(stderr, "  *event %zu kind %d id %d %s other %ld/%ld peak %ld/%ld\n", e, (int)b.kind, b.id,
                       b.kind == plan::EventKind::op ? g.ops[b.id].name.c_str() : "",
                       (long)(a.other_bytes - old_start.bytes), (long)(b.other_bytes - begin.bytes),
                       (long)(a.other_peak - old_start.bytes), (long)(b.other_peak - begin.bytes));
      }
      for (size_t v = 0; v < std::min(before->values.size(), g.values.size()); ++v)
        if (before->values[v].producer != g.values[v].producer) {
          std::fprintf(stderr, "  v%zu producer %d/%d raw %d", v, before->values[v].producer, g.values[v].producer,
                       raw->values[v].producer);
          const int o = std::max(before->values[v].producer, g.values[v].producer);
          for (auto* gg : {before.get(), &g}) {
            std::fprintf(stderr, " | op%d %s:", o, gg->ops[o].name.c_str());
            for (auto& a : gg->ops[o].args)
              std::fprintf(stderr, " v%d%s%s->%d%s", a.value, a.shape_only ? "s" : "",
                           gg->values[a.value].external       ? "X"
                           : gg->values[a.value].producer < 0 ? "R"
                                                              : "",
                           a.becomes, a.becomes >= 0 && gg->values[a.becomes].producer < 0 ? "R" : "");
          }
          std::fprintf(stderr, "\n");
        }
      std::vector<std::set<int>> sim(g.events.size());
      for (size_t e = 0; e < g.events.size(); ++e) {
        plan::History h;
        h.live_event = e;
        plan::Simulator(g).run(ch, h);
        for (auto& l : h.live)
          if (l.value >= 0 && !g.values[l.value].external) sim[e].insert(l.value);
      }
      auto& rt = timeline.dbg_live;
      rt.resize(g.events.size() + 1);
      auto has = [&](size_t e, int v) {
        if (e >= rt.size()) return false;
        for (auto& x : rt[e])
          if (x.first == v) return true;
        return false;
      };
      static const char* kinds[] = {"op", "save", "release", "unpack", "drop", "end"};
      for (size_t e = 0; e < g.events.size(); ++e) {
        std::string extra, missing;
        if (!rt[e].empty())
          for (auto& [v, c] : rt[e])
            if (g.values[v].bytes && !sim[e].count(v) && (e == 0 || !sim[e - 1].count(v)))
              extra += " v" + std::to_string(v) + c + "(" + std::to_string(g.values[v].bytes) + ")";
        if (!rt[e].empty() && e + 1 < rt.size() && !rt[e + 1].empty())
          for (int v : sim[e])
            if (g.values[v].bytes && !has(e, v) && !has(e + 1, v))
              missing += " v" + std::to_string(v) + "(" + std::to_string(g.values[v].bytes) + ")";
        const auto& b = g.events[e];
        std::string args;
        if (b.kind == plan::EventKind::op) {
          for (auto& a : g.ops[b.id].args)
            args += " v" + std::to_string(a.value) + (a.shape_only ? "s" : "") +
                    (g.values[a.value].external       ? "X"
                     : g.values[a.value].producer < 0 ? "R"
                                                      : "") +
                    (a.becomes >= 0 ? "->" + std::to_string(a.becomes) + (g.values[a.becomes].producer < 0 ? "R" : "")
                                    : "");
          for (auto f : g.ops[b.id].fresh)
            args += " =v" + std::to_string(f) + (g.values[f].producer < 0 ? "R" : "") + "(" +
                    std::to_string(g.values[f].bytes) + ")c" + std::to_string(ch[f].index());
        }
        if (b.kind == plan::EventKind::save || b.kind == plan::EventKind::unpack || b.kind == plan::EventKind::drop)
          args = " v" + std::to_string(g.handles[b.id]);
        if (getenv("DBGA") || !extra.empty() || !missing.empty() || e == o2.peak_event)
          std::fprintf(stderr, "  %zu %s %d %s%s | other %ld peak %ld | sim peak %ld%s%s%s%s\n", e, kinds[(int)b.kind],
                       b.id, b.kind == plan::EventKind::op ? g.ops[b.id].name.c_str() : "", args.c_str(),
                       (long)(b.other_bytes - begin.bytes), (long)(b.other_peak - begin.bytes),
                       (long)(o2.event_peaks[e] - begin.bytes), extra.empty() ? "" : " | EXTRA", extra.c_str(),
                       missing.empty() ? "" : " | MISSING", missing.c_str());
      }
    }
  }
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
  // The first step verifies, looks for encodings and evicts, and the first that follows a plan verifies: operators run with
  // cold caches then. Times without that come with the next one, and are worth one plan more.
  const bool undisturbed = as_predicted && (tried || is_evicting()) && !step.plan_is_new();
  better_timed |= undisturbed && !timed;
  timed |= undisturbed;
}

void StepProfile::learn_eviction(const BudgetedStep& step, int64_t peak_bytes, double replay_seconds,
                                 const StepStart& begin) {
  if (!step.plan() && step.most_wanted_bytes() == 0 && !step.only_measures())
    eviction = {replay_seconds, peak_bytes, begin.bytes, step.given_bytes()};
}

void StepProfile::foresee_eviction(int64_t budget_bytes, const StepStart& begin) {
  if (can_evict_within(budget_bytes)) return;
  const int64_t shift = begin.bytes - start.bytes;
  const plan::Outcome outcome = plan::by_eviction(*graph, budget_bytes - shift);
  if (outcome.peak_bytes > budget_bytes - shift) return;
  eviction = {outcome.replay_seconds, outcome.peak_bytes + shift, begin.bytes, budget_bytes};
}

// Close to the smallest budget the only plan may be to rebuild everything every time. Eviction has done better then, and is
// expected to do as well again, beside whatever else is live by now.
void StepProfile::adopt(FoundPlan found, const StepStart& begin, bool in_background) {
  const plan::Plan& plan = found.plan;
  if (can_evict_within(plan.budget_bytes) &&
      eviction->replay_seconds + kWorthEvicting * graph->seconds < plan.replay_seconds)
    return go_by_eviction(plan.bound_seconds - (plan.seconds - plan.replay_seconds), plan.planning_seconds);
  as_predicted = true;
  Planned planned;
  planned.kinds = kinds_of(plan, *graph);
  planned.copied_roots =
      std::make_shared<const std::vector<char>>(plan::copied_roots(plan::without(*graph, found.unheld_roots)));
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
