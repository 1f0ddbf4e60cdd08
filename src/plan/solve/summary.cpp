// What a plan holds, for people.
#include <algorithm>

#include "plan/solve/plan.h"

namespace retrace::plan {

std::vector<HeldValues> held_values(const Choices& choices, const Graph& graph) {
  std::vector<HeldValues> held{{Value().kind_of(kAsItIs)}};
  for (size_t v = 0; v < choices.size(); ++v) {
    if (!choices[v].holds()) continue;
    const Value& value = graph.values[v];
    const int way = choices[v].way();
    const std::string& kind = value.kind_of(way);
    auto row = std::find_if(held.begin(), held.end(),
                            [&](const HeldValues& h) { return h.kind == kind && h.lossy == value.lossy_in(way); });
    if (row == held.end()) row = held.insert(held.end(), {.kind = kind, .lossy = value.lossy_in(way)});
    ++row->values;
    row->bytes += value.bytes_in(way);
    row->plain_bytes += value.bytes;
  }
  return held;
}

int64_t Plan::lossy_values() const {
  int64_t count = 0;
  for (const HeldValues& h : held) count += h.lossy ? h.values : 0;
  return count;
}

PlanSummary summarize(const Plan& plan, const Graph& graph) {
  PlanSummary s;
  s.budget_bytes = plan.budget_bytes;
  s.peak_bytes = plan.peak_bytes;
  s.seconds = plan.seconds;
  s.replay_seconds = plan.replay_seconds;
  s.bound_seconds = plan.bound_seconds;
  s.gap = plan.gap();
  s.strategy = plan.strategy;
  s.planning_seconds = plan.planning_seconds;
  s.held = plan.held;
  s.values_lossy = plan.lossy_values();
  for (size_t i = 1; i < s.held.size(); ++i) {
    s.values_encoded += s.held[i].values;
    s.encoded_bytes += s.held[i].bytes;
    s.encoded_plain_bytes += s.held[i].plain_bytes;
  }
  std::vector<char> saved(graph.values.size());
  for (const ValueId v : graph.handles) saved[at(v)] = 1;
  for (size_t v = 0; v < std::min(saved.size(), plan.choices.size()); ++v) {
    if (saved[v] == 0 || graph.values[v].producer == kNone) continue;
    s.values_kept += plan.choices[v] == Choice::keep();
    s.values_rebuilt += !plan.choices[v].holds();
  }
  return s;
}

}  // namespace retrace::plan
