// retrace bench examples: whole training programs within a budget against the same without Retrace.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <retrace/budget.h>

#include "commands.h"
#include "comparison.h"
#include "example.h"
#include "known_examples.h"
#include "near_names.h"
#include "progress.h"
#include "report/median.h"
#include "report/table.h"

namespace retrace::cli {

namespace {

constexpr const char* kHelp = R"(
Each program runs as a process of its own, N rounds of a plain run and one run per budget, and a plain run at the end. First
what it prints is compared with what it prints without Retrace; where that differs no time is printed and the exit code is 1.

'run' is the time of all steps, planning and the first step included, against the mean of the plain runs before and after.
'pause' is the most that one step took longer than the same step of the plain run, in plain steps (their median).
'planned' is what the training waited for plans, 'followed' how many of the steps kept to one, 'peak' the highest of any step
but the first against the highest of the plain run. All are medians over the rounds.)";

struct Options {
  std::vector<std::string> names;
  std::vector<std::string> budgets = {"80%", "60%"};
  int rounds = 3;
  int steps = 20;
  bool small = false;
};

struct Row {
  std::string example, budget;
  std::string problem;  // no figures then
  int64_t operators = 0;
  double step_seconds = 0, plain_seconds = 0;  // medians of the plain run
  int64_t plain_peak_bytes = 0;
  std::vector<double> run, pause, planning_seconds, plans, followed, peak;
};

std::vector<std::string> chosen(const Options& options) {
  const auto known = known_examples();
  for (const std::string& name : options.names) check_is_known(name, known, "bench examples", "example", "examples");
  for (const std::string& text : options.budgets) budget(text);  // throws UsageError
  if (options.rounds < 1 || options.steps < 2)
    throw BadInput(
        "[bench examples] nothing would be left to time, nothing was run. Use --rounds 1 and --steps 2 or more.");
  return options.names.empty() ? known : options.names;
}

// plain, budgets, plain, budgets, ..., plain
std::vector<std::string> arguments_of(const Options& options) {
  std::vector<std::string> arguments{"--steps", std::to_string(options.steps)};
  if (options.small) arguments.push_back("--small");
  for (int round = 0; round < options.rounds; ++round) {
    arguments.push_back("--plain");
    for (const std::string& text : options.budgets) arguments.insert(arguments.end(), {"--budget", text});
  }
  arguments.push_back("--plain");
  return arguments;
}

void add_round(Row& row, const ExampleRun& run, const ExampleRun& before, const ExampleRun& after) {
  if (row.problem.empty()) row.problem = problem_of(run, before);
  if (!row.problem.empty()) return;
  row.operators = std::max(row.operators, run.operators);
  row.run.push_back(2 * run.seconds / (before.seconds + after.seconds));
  double longest = 0;
  for (size_t i = 0; i < run.step_seconds.size(); ++i)
    longest = std::max(longest, run.step_seconds[i] - (before.step_seconds[i] + after.step_seconds[i]) / 2);
  row.pause.push_back(longest / median(before.step_seconds));
  row.planning_seconds.push_back(run.planning_seconds);
  row.plans.push_back(static_cast<double>(run.plans));
  row.followed.push_back(std::accumulate(run.step_followed_plan.begin(), run.step_followed_plan.end(), 0.0));
  const int64_t peak = *std::max_element(run.step_peak_bytes.begin() + 1, run.step_peak_bytes.end());
  row.peak.push_back(static_cast<double>(peak) / static_cast<double>(before.peak_bytes));
}

std::vector<Row> measure(const Options& options, const std::string& example) {
  const auto runs = run_example(path_of_example("bench examples", example), arguments_of(options));
  const size_t stride = options.budgets.size() + 1;
  std::vector<Row> rows;
  for (size_t i = 0; i < options.budgets.size(); ++i) {
    Row row;
    row.example = example;
    row.budget = options.budgets[i];
    row.plain_peak_bytes = runs[0].peak_bytes;
    row.step_seconds = median(runs[0].step_seconds);
    std::vector<double> plain;
    for (size_t at = 0; at + stride < runs.size(); at += stride) {
      add_round(row, runs[at + 1 + i], runs[at], runs[at + stride]);
      plain.push_back(runs[at].seconds);
    }
    row.plain_seconds = median(plain);
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json = {{"example", row.example},
                                 {"budget", row.budget},
                                 {"plain_seconds", row.plain_seconds},
                                 {"plain_step_seconds", row.step_seconds},
                                 {"plain_peak_bytes", row.plain_peak_bytes}};
  if (!row.problem.empty()) {
    json["problem"] = row.problem;
    return json;
  }
  json["operators"] = row.operators;
  json["run"] = median(row.run);
  json["pause"] = median(row.pause);
  json["planning_seconds"] = median(row.planning_seconds);
  json["plans"] = median(row.plans);
  json["followed"] = median(row.followed);
  json["peak"] = median(row.peak);
  return json;
}

std::vector<std::string> cells(const Row& row) {
  using report::fixed, report::human_bytes, report::human_seconds;
  std::vector<std::string> cells{row.example, row.budget, human_bytes(row.plain_peak_bytes),
                                 human_seconds(row.step_seconds)};
  if (!row.problem.empty()) {
    cells.push_back(row.problem);
    return cells;
  }
  cells.insert(cells.end(),
               {fixed(median(row.run), 2), fixed(median(row.pause), 2), human_seconds(median(row.planning_seconds)),
                fixed(median(row.plans), 0), fixed(median(row.followed), 0), fixed(100 * median(row.peak), 1) + " %",
                std::to_string(row.operators)});
  return cells;
}

int run(const Options& options, bool json) {
  const auto examples = chosen(options);
  setenv("OMP_NUM_THREADS", "1", 1);  // for the programs
  auto all = nlohmann::ordered_json::array();
  report::Table table({"example", "budget", "plain peak", "plain step", "run", "pause", "planned", "plans", "followed",
                       "peak", "operators"});
  Progress progress(static_cast<int64_t>(examples.size()));
  int code = kOk;
  for (const std::string& example : examples) {
    progress.show(example);
    for (const Row& row : measure(options, example)) {
      all.push_back(to_json(row));
      table.add_row(cells(row));
      if (!row.problem.empty()) code = kFailed;
    }
    progress.advance();
  }
  std::cout << (json ? all.dump(2) + "\n" : table.str());
  return code;
}

}  // namespace

void add_bench_examples(CLI::App& bench, const bool& json, int& exit_code) {
  const auto options = std::make_shared<Options>();
  auto* const examples =
      bench.add_subcommand("examples", "Whole training programs within a budget, against plain runs");
  examples->add_option("EXAMPLE", options->names, "One or more of " + join(known_examples()) + "; default: all");
  examples->add_option("--budget", options->budgets, "One or more budgets")->capture_default_str();
  examples->add_option("--rounds", options->rounds, "Runs per budget")->capture_default_str();
  examples->add_option("--steps", options->steps, "Steps of a run")->capture_default_str();
  examples->add_flag("--small", options->small, "In miniature");
  examples->fallthrough();  // --json is the parent's
  examples->footer(kHelp);
  examples->callback([&json, &exit_code, options] { exit_code = run(*options, json); });
}

}  // namespace retrace::cli
