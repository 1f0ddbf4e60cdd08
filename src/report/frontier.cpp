#include "report/frontier.h"

#include <algorithm>
#include <cmath>

#include "policy/parse.h"
#include "policy/predict.h"

namespace retrace::report {
namespace {

constexpr int kMostEvery = 1 << 20;  // larger than the number of cut vertices of any tape that is looked at

bool same(const plan::Outcome& a, const plan::Outcome& b) {
  return a.peak_bytes == b.peak_bytes && a.ops_replayed == b.ops_replayed && a.replay_seconds == b.replay_seconds;
}

bool is_better(const PolicyFigures& a, const PolicyFigures& b) {
  return a.peak_bytes <= b.peak_bytes && a.step_seconds <= b.step_seconds &&
         (a.peak_bytes < b.peak_bytes || a.step_seconds < b.step_seconds);
}

std::vector<FrontierPoint> plans(const plan::Graph& graph, const Frontier& frontier, int budgets,
                                 const std::function<void(const std::string&)>& begin) {
  std::vector<FrontierPoint> points;
  for (int i = 0; i < budgets; ++i) {
    const int64_t range = frontier.plain_bytes - frontier.smallest_bytes;
    const int64_t bytes = frontier.smallest_bytes + (budgets == 1 ? 0 : range * i / (budgets - 1));
    begin("budget:" + std::to_string(bytes));
    FrontierPoint point{.figures = figures_within(graph, bytes), .planned = true};
    if (!point.figures.fits) continue;
    if (!points.empty() && points.back().figures.step_seconds < point.figures.step_seconds) {
      const PolicyFigures& before = points.back().figures;
      const std::string name = point.figures.policy;
      point.figures = before;
      point.figures.policy = name;
      point.figures.budget_bytes = bytes;
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

std::vector<std::string> frontier_policies(const plan::Graph& graph) {
  std::vector<std::string> names{"full"};
  const auto outcome = [&](int n) { return predict(graph, every(n)); };
  const plan::Outcome nothing_kept = outcome(kMostEvery);
  for (int n = 1, step = 1; n < kMostEvery; n += step) {
    const plan::Outcome now = outcome(n);
    if (same(now, nothing_kept)) break;
    names.push_back("every:" + std::to_string(n));
    if (n >= 4 * step) step *= 2;
  }
  names.insert(names.end(), {"selective", "recompute_all"});
  return names;
}

Frontier find_frontier(const plan::Graph& graph, const std::vector<std::string>& policies, int budgets,
                       const std::function<void(const std::string&)>& begin) {
  Frontier frontier;
  frontier.plain_bytes = plan::plain(graph).peak_bytes;
  frontier.plain_seconds = graph.seconds;
  frontier.smallest_bytes = plan::smallest(graph).peak_bytes;
  char mark = 'a';
  for (const std::string& name : policies) {
    begin(name);
    FrontierPoint point{.figures = figures_of(graph, parse_policy(name, graph))};
    point.figures.policy = name;
    point.mark = mark <= 'z' ? mark++ : '*';
    frontier.points.push_back(std::move(point));
  }
  for (FrontierPoint& point : plans(graph, frontier, budgets, begin)) frontier.points.push_back(std::move(point));
  for (FrontierPoint& point : frontier.points) {
    point.dominated =
        point.figures.fits && std::any_of(frontier.points.begin(), frontier.points.end(), [&](const auto& other) {
          return other.figures.fits && is_better(other.figures, point.figures);
        });
  }
  return frontier;
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  if (!(rough > 0)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double multiple : {5.0, 2.5, 2.0, 1.0}) {
    if (multiple * power >= rough) step = multiple * power;
  }
  std::vector<double> ticks;
  for (double tick = std::ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step)
    ticks.push_back(tick + 0.0);  // no -0
  return ticks;
}

}  // namespace retrace::report
