// retrace bench planner: how long planning takes, and how far its plans can be from the best possible.
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "near_names.h"
#include "plan/solve/plan.h"
#include "report/table.h"
#include "synthetic/graphs.h"

namespace retrace::cli {

namespace {

struct Case {
  std::string name;
  int layers;
  std::function<plan::Graph()> graph;
};

struct Row {
  std::string name;
  int layers = 0;
  size_t values = 0;
  int64_t plain_bytes = 0, budget_bytes = 0;
  double step_seconds = 0;
  plan::Plan plan;
  std::vector<plan::StrategyUse> strategies;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const int layers : {8, 80, 1000}) {
    result.push_back({"transformer", layers, [layers] { return plan::synthetic_transformer(layers); }});
  }
  result.push_back({"chain", 100'000, [] { return plan::synthetic_chain(100'000); }});
  return result;
}

Row measure(const Case& item, double percent, const std::string& strategy) {
  const plan::Graph graph = item.graph();
  Row row{item.name, item.layers, graph.values.size(), 0, 0, graph.seconds, {}, {}};
  row.plain_bytes = plan::plain(graph).peak_bytes;
  row.budget_bytes = static_cast<int64_t>(static_cast<double>(row.plain_bytes) * percent / 100);
  const plan::Answer answer = plan::solve(graph, row.budget_bytes, {.strategy = strategy});
  if (!answer.plan) {
    throw BadInput(
        "[bench planner] no plan for " + item.name + " of " + std::to_string(item.layers) +
        " layers fits; the smallest budget is " +
        report::fixed(100.0 * static_cast<double>(answer.smallest_bytes) / static_cast<double>(row.plain_bytes), 1) +
        " percent. Ask for more with --budget.");
  }
  plan::verify(*answer.plan, graph);
  row.plan = *answer.plan;
  row.strategies = answer.strategies;
  return row;
}

nlohmann::ordered_json to_json(const Row& row) {
  auto spent = nlohmann::ordered_json::object();
  for (const plan::StrategyUse& use : row.strategies) spent[use.name] = use.seconds;
  return {{"graph", row.name},
          {"layers", row.layers},
          {"values", row.values},
          {"strategy", row.plan.strategy},
          {"plain_bytes", row.plain_bytes},
          {"budget_bytes", row.budget_bytes},
          {"peak_bytes", row.plan.peak_bytes},
          {"planning_seconds", row.plan.planning_seconds},
          {"strategy_seconds", spent},
          {"step_seconds", row.step_seconds},
          {"replay_seconds", row.plan.replay_seconds},
          {"bound_seconds", row.plan.bound_seconds},
          {"gap", row.plan.gap()},
          {"verified", true}};
}

std::vector<std::string> cells(const Row& row) {
  return {row.name,
          std::to_string(row.layers),
          std::to_string(row.values),
          report::human_bytes(row.plain_bytes),
          report::human_bytes(row.plan.peak_bytes),
          report::fixed(1 + row.plan.replay_seconds / row.step_seconds, 3),
          report::fixed(100 * row.plan.gap(), 2) + " %",
          report::human_seconds(row.plan.planning_seconds)};
}

int run(double percent, const std::string& strategy, bool json) {
  if (!(percent > 0 && percent <= 100))
    throw BadInput(
        "[bench planner] a budget of " + report::fixed(percent, 1) +
        " percent cannot be meant, nothing was run. It is a share of the plain peak, above 0 and up to 100.");
  auto rows = nlohmann::ordered_json::array();
  report::Table table({"graph", "layers", "values", "plain peak", "peak", "ratio", "gap", "planned in"});
  for (const Case& item : cases()) {
    const Row row = measure(item, percent, strategy);
    rows.push_back(to_json(row));
    table.add_row(cells(row));
  }
  std::cout << (json ? rows.dump(2) + "\n" : table.str());
  return kOk;
}

}  // namespace

void add_bench_planner(CLI::App& bench, int& exit_code) {
  struct Options {
    double percent = 50;
    std::string strategy = "best";
  };
  const auto options = std::make_shared<Options>();
  auto* const planner = bench.add_subcommand(
      "planner", "Planning time and distance from the optimum, on synthetic steps of 8 to 100,000 layers");
  planner->add_option("--budget", options->percent, "In percent of the plain peak")->capture_default_str();
  planner->add_option("--strategy", options->strategy, join(plan::strategies()))->capture_default_str();
  planner->fallthrough();  // --json is the parent's
  planner->callback([&bench, &exit_code, options] {
    exit_code = run(options->percent, options->strategy, bench.get_option("--json")->count() > 0);
  });
}

}  // namespace retrace::cli
