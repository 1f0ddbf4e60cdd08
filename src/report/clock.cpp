#include "report/clock.h"

#include <algorithm>
#include <numeric>

namespace retrace::report {
namespace {

using plan::EventKind;

// By event, what its own operators took: forward's, or those backward ran after it.
std::vector<double> operator_seconds(const plan::Graph& graph) {
  std::vector<double> seconds(graph.events.size());
  for (size_t e = 0; e < graph.events.size(); ++e) {
    if (graph.events[e].kind == EventKind::op) seconds[e] = graph.ops[plan::at(graph.events[e].id)].seconds;
  }
  for (const plan::BackwardOp& op : graph.backward_ops) {
    if (!seconds.empty()) seconds[static_cast<size_t>(std::max(op.after_event, 0))] += op.seconds;
  }
  return seconds;
}

void spread_over_backward(const plan::Graph& graph, std::vector<double>& seconds) {
  const auto unpacks = std::count_if(graph.events.begin(), graph.events.end(),
                                     [](const plan::Event& e) { return e.kind == EventKind::unpack; });
  const double left = graph.seconds - std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (unpacks == 0 || left <= 0) return;
  for (size_t e = 0; e < graph.events.size(); ++e) {
    if (graph.events[e].kind == EventKind::unpack) seconds[e] = left / static_cast<double>(unpacks);
  }
}

}  // namespace

StepClock::StepClock(const plan::Graph& graph, const plan::History& history) {
  std::vector<double> seconds = operator_seconds(graph);
  if (graph.backward_ops.empty()) spread_over_backward(graph, seconds);
  const double known = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (known > 0 && graph.seconds > 0) stretch_ = graph.seconds / known;
  double now = 0;
  for (size_t e = 0; e < seconds.size(); ++e) {
    begin_.push_back(now);
    ready_.push_back(now += history.replay_seconds[e]);
    now += stretch_ * seconds[e];
  }
  begin_.push_back(now);
  const auto unpack = [](const plan::Event& e) { return e.kind == EventKind::unpack; };
  first_backward_ =
      static_cast<size_t>(std::find_if(graph.events.begin(), graph.events.end(), unpack) - graph.events.begin());
}

}  // namespace retrace::report
