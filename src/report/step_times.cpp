#include "report/step_times.h"

#include <algorithm>
#include <numeric>

namespace retrace::report {
namespace {

using plan::EventKind;

std::vector<double> measured(const plan::Graph& graph) {
  std::vector<double> seconds(graph.events.size(), 0);
  for (size_t e = 0; e < graph.events.size(); ++e) {
    const plan::Event& event = graph.events[e];
    if (event.kind == EventKind::op) seconds[e] = graph.ops[plan::at(event.id)].seconds;
  }
  for (const plan::BackwardOp& op : graph.backward_ops) {
    if (!seconds.empty()) seconds[plan::at(std::max(op.after_event, 0))] += op.seconds;
  }
  return seconds;
}

void share_the_rest(const plan::Graph& graph, double rest, std::vector<double>& seconds) {
  const auto asks = [](const plan::Event& e) { return e.kind == EventKind::unpack; };
  const auto count = std::count_if(graph.events.begin(), graph.events.end(), asks);
  if (count == 0 || rest <= 0) return;
  for (size_t e = 0; e < seconds.size(); ++e) {
    if (asks(graph.events[e])) seconds[e] += rest / static_cast<double>(count);
  }
}

}  // namespace

StepTimes::StepTimes(const plan::Graph& graph, const std::vector<double>& rebuilding) {
  std::vector<double> seconds = measured(graph);
  if (graph.backward_ops.empty())
    share_the_rest(graph, graph.seconds - std::accumulate(seconds.begin(), seconds.end(), 0.0), seconds);
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double scale = sum > 0 && graph.seconds > 0 ? graph.seconds / sum : 1;
  begin_.push_back(0);
  for (size_t e = 0; e < seconds.size(); ++e)
    begin_.push_back(begin_.back() + seconds[e] * scale + (rebuilding.empty() ? 0 : rebuilding[e]));
}

double StepTimes::average(const std::vector<int64_t>& event_peaks) const {
  double sum = 0, plain_sum = 0;
  for (size_t e = 0; e < event_peaks.size(); ++e) {
    sum += duration(e) * static_cast<double>(event_peaks[e]);
    plain_sum += static_cast<double>(event_peaks[e]);
  }
  if (event_peaks.empty()) return 0;
  return end() > 0 ? sum / end() : plain_sum / static_cast<double>(event_peaks.size());
}

}  // namespace retrace::report
