#include "report/frontier.h"

#include <algorithm>
#include <cmath>

#include "plan/graph/roots.h"
#include "plan/solve/bearable.h"
#include "policy/parse.h"

namespace retrace::report {
namespace {

constexpr int kMostEvery = 1 << 20;  // larger than the number of cut vertices of any tape that is looked at

bool same(const PolicyFigures& a, const PolicyFigures& b) {
  return a.peak_bytes == b.peak_bytes && a.ops_again == b.ops_again && a.extra_seconds == b.extra_seconds;
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

void add_every_policy(const plan::Graph& graph, const std::function<void(const std::string&)>& add,
                      std::vector<FrontierPoint>& points) {
  const PolicyFigures nothing_kept = figures_of(graph, every(kMostEvery));
  const bool large = graph.ops.size() > kLargeTape;
  add("full");
  for (int n = 1, step = 1; n < kMostEvery; n = large ? 4 * n : n + step) {
    add("every:" + std::to_string(n));
    if (same(points.back().figures, nothing_kept)) {
      points.pop_back();
      break;
    }
    if (n >= 4 * step) step *= 2;
  }
  add("selective");
  add("recompute_all");
}

// Where the ladder of budgets begins.
int64_t first_rung(const plan::Graph& graph, const Frontier& frontier) {
  if (graph.ops.size() <= kLargeTape) {
    const auto smallest = plan::bearable(plan::without(graph, plan::idle_roots(graph)));
    return smallest ? smallest->peak_bytes : frontier.plain_bytes;
  }
  int64_t lowest = frontier.plain_bytes;
  for (const FrontierPoint& point : frontier.points) {
    if (point.figures.fits) lowest = std::min(lowest, point.figures.peak_bytes);
  }
  return lowest;
}

}  // namespace

Frontier find_frontier(const plan::Graph& graph, const std::vector<std::string>& policies, int budgets,
                       const std::function<void(const std::string&)>& begin) {
  Frontier frontier;
  frontier.plain_bytes = plan::plain(graph).peak_bytes;
  frontier.plain_seconds = graph.seconds;
  const auto add = [&](const std::string& name) {
    begin(name);
    const size_t letter = frontier.points.size();
    FrontierPoint point{.figures = figures_of(graph, parse_policy(name, graph))};
    point.figures.policy = name;
    point.mark = letter < 26 ? static_cast<char>('a' + letter) : '*';
    frontier.points.push_back(std::move(point));
  };
  for (const std::string& name : policies) add(name);
  if (policies.empty()) add_every_policy(graph, add, frontier.points);
  if (budgets > 0) {
    begin("smallest budget");
    frontier.smallest_bytes = first_rung(graph, frontier);
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
