// Memory against time for one step: every named policy, every:N as a dial, and the planner at a ladder of budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/policy_figures.h"

namespace retrace::report {

struct FrontierPoint {
  PolicyFigures figures;
  bool planned = false;    // by a search for a budget
  bool dominated = false;  // another point takes no more memory and no more time, and less of one
  char mark = ' ';         // of a policy, in the plot: a, b, c, ...
};

struct Frontier {
  std::vector<FrontierPoint> points;  // policies as they were asked for, then plans from the smallest budget on
  int64_t plain_bytes = 0;
  int64_t smallest_bytes = 0;  // where the ladder of budgets begins; 0: there is none
  double plain_seconds = 0;
};

// `begin` is told what comes next. Without policies: "full", "every:1", "every:2", ... up to where nothing is kept any
// more (each N up to 16, then fewer; on a large tape a selection), "selective", "recompute_all". Budgets as in
// report/ladder.h.
Frontier find_frontier(const plan::Graph& graph, const std::vector<std::string>& policies, int budgets,
                       const std::function<void(const std::string&)>& begin);

// Characters, for a terminal.
std::string draw_frontier(const Frontier& frontier, size_t width);

// A picture that fits light and dark pages. `title` may be any text.
std::string frontier_svg(const Frontier& frontier, const std::string& title);

// Round numbers from `low` to `high`, about `count`.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace retrace::report
