#include "report/frontier.h"

#include <algorithm>
#include <cmath>

#include "policy/parse.h"
#include "report/ladder.h"

namespace retrace::report {
namespace {

constexpr int kMostEvery = 1 << 20;  // larger than the number of cut vertices of any tape that is looked at
constexpr int kEachEvery = 16;       // N is every number up to here, and from here on some

bool same(const PolicyFigures& a, const PolicyFigures& b) {
  return a.peak_bytes == b.peak_bytes && a.ops_again == b.ops_again && a.extra_seconds == b.extra_seconds;
}

bool is_better(const PolicyFigures& a, const PolicyFigures& b) {
  return a.peak_bytes <= b.peak_bytes && a.step_seconds <= b.step_seconds &&
         (a.peak_bytes < b.peak_bytes || a.step_seconds < b.step_seconds);
}

// Every N up to where nothing is kept any more.
void add_dial(const plan::Graph& graph, const std::function<void(const std::string&)>& add,
              std::vector<FrontierPoint>& points) {
  const PolicyFigures nothing_kept = figures_of(graph, every(kMostEvery));
  for (int n = 1, step = 1; n < kMostEvery; n += step) {
    add("every:" + std::to_string(n));
    if (same(points.back().figures, nothing_kept)) {
      points.pop_back();
      return;
    }
    if (n >= kEachEvery * step) step *= 2;
  }
}

void add_every_policy(const plan::Graph& graph, const std::function<void(const std::string&)>& add,
                      std::vector<FrontierPoint>& points) {
  add("full");
  if (is_large(graph)) {
    // Where next to nothing is kept, a long step takes a second to predict.
    for (const char* name : {"every:1", "every:2", "every:4", "every:8", "every:16", "every:64", "every:256"})
      add(name);
  } else {
    add_dial(graph, add, points);
  }
  add("selective");
  add("recompute_all");
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
    for (const BudgetPlan& rung : ladder(graph, budgets, begin)) {
      if (frontier.smallest_bytes == 0) frontier.smallest_bytes = rung.plan.budget_bytes;
      frontier.points.push_back({.figures = figures_by(*rung.graph, rung.plan), .planned = true});
    }
  }
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
