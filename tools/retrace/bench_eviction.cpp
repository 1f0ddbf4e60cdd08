// retrace bench eviction: what steps without a plan rebuild, against those that have one.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "comparison.h"
#include "example.h"
#include "known_examples.h"
#include "near_names.h"
#include "output_path.h"
#include "plan/file/disk.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "progress.h"
#include "report/median.h"
#include "report/table.h"
#include "runner.h"

namespace retrace::cli {

namespace {

constexpr const char* kCommand = "bench eviction";
constexpr const char* kHelp = R"(
A budget is a share of the highest peak of the plain run, given in bytes. 'eviction' is what a step rebuilds that is the first
of its session and so has no plan, 'plan' what one rebuilds, stores and loads that follows the plan of the full search, in
seconds and as a share of the plain step; both are measured, and the least of the rounds counts, since others on the
machine only add. 'ratio' is the one by the other; there is none where the plan takes less than 0.1 % of the step.

'simulated': no step of the program followed a plan, because no step comes back or because eviction was faster than any plan
found. The plan is then made for the tape of the last step and its seconds are simulated; eviction's are those of that step.

Results are compared first with those of the plain run, and peaks with the budget; where they are wrong no time is
printed and the exit code is 1. A budget that was refused is no failure.)";

struct Options {
  std::vector<std::string> programs;
  std::vector<double> percents = {80, 60, 50};
  int64_t rounds = 3;
  int64_t steps = 8;
  bool small = false;
  std::string output;
};

struct Row {
  std::string program;
  double percent = 0;
  int64_t plain_bytes = 0;
  double step_seconds = 0;
  std::string problem = {};  // no figures then
  bool failed = false;       // and it is a mistake
  double eviction_seconds = 0, plan_seconds = 0;
  bool simulated = false;

  int64_t budget_bytes() const { return static_cast<int64_t>(percent / 100 * static_cast<double>(plain_bytes)); }
  double eviction_share() const { return eviction_seconds / step_seconds; }
  double plan_share() const { return plan_seconds / step_seconds; }
  bool has_ratio() const { return plan_share() >= 0.001; }
  double ratio() const { return eviction_seconds / plan_seconds; }
};

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

std::string percent_of(int64_t part, int64_t whole) {
  return report::fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %";
}

// -- Plans for a tape --

class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / ("retrace-" + std::to_string(getpid()) + ".tape")).string()) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// The same step once more: an operator's time is its shortest.
void add_times(plan::Graph& graph, const plan::Graph& again) {
  if (again.signature != graph.signature) return;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    plan::Op& op = graph.ops[i];
    op.seconds = std::min(op.seconds, again.ops[i].seconds);
    op.shortcut_seconds = std::min(op.shortcut_seconds, again.ops[i].shortcut_seconds);
  }
}

void simulate_plan(Row& row, const plan::Graph& graph) {
  row.simulated = true;
  const plan::Answer answer = plan::solve(graph, row.budget_bytes());
  if (answer.plan) {
    row.plan_seconds = answer.plan->replay_seconds;
  } else {
    row.problem = "no plan: smallest " + percent_of(answer.smallest_bytes, row.plain_bytes);
  }
}

// -- Models --

plan::Graph tape_of(const models::Model& model) {
  const TemporaryFile file;
  Runner measured("budget:100%", model);
  for (int i = 0; i < 3; ++i) measured.step(model);
  measured.session()->save_tape(file.path());
  return plan::load_graph(file.path());
}

void add_measurements(Row& row, const models::Model& model, const Measurement& eviction, const Measurement& plan) {
  for (const Measurement* seen : {&eviction, &plan}) {
    if (seen->gradients_identical()) continue;
    row.problem = seen->policy + ": " + seen->difference;
    row.failed = true;
    return;
  }
  row.eviction_seconds = least(eviction.replay_seconds);
  row.plan_seconds = least(plan.replay_seconds);
  if (!plan.plan || plan.plan->strategy == "eviction") simulate_plan(row, tape_of(model));
}

std::vector<Row> measure_model(const Options& options, const std::string& name) {
  const models::Model model = models::make_model(name, options.small ? models::Size::test : models::Size::bench);
  const auto ends = sweep_of_budgets(model, 2);
  const auto bytes_of = [](const std::string& policy) { return std::stoll(policy.substr(policy.find(':') + 1)); };
  const int64_t smallest = bytes_of(ends[0]);
  std::vector<Row> rows;
  std::vector<std::string> policies;
  for (const double percent : options.percents) {
    Row row{.program = name, .percent = percent, .plain_bytes = bytes_of(ends[1])};
    const std::string bytes = std::to_string(row.budget_bytes());
    if (row.budget_bytes() < smallest) {
      row.problem = "refused: smallest " + percent_of(smallest, row.plain_bytes);
    } else {
      policies.insert(policies.end(), {"eviction:" + bytes, "budget:" + bytes});
    }
    rows.push_back(std::move(row));
  }
  const auto measurements = compare(model, policies, options.rounds);
  size_t next = 1;  // the first is the plain run
  for (Row& row : rows) {
    row.step_seconds = least(measurements[0].seconds);
    if (!row.problem.empty()) continue;
    add_measurements(row, model, measurements[next], measurements[next + 1]);
    next += 2;
  }
  return rows;
}

// -- Examples --

std::vector<std::string> arguments_of(const Options& options, const std::vector<std::string>& settings) {
  std::vector<std::string> arguments{"--foreground", "--steps", std::to_string(options.steps)};
  if (options.small) arguments.push_back("--small");
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  return arguments;
}

plan::Graph tape_of(const Options& options, const std::string& path) {
  const TemporaryFile file;
  plan::Graph graph;
  for (int64_t round = 0; round < options.rounds; ++round) {
    run_example(path, arguments_of(options, {"--tape", file.path(), "--budget", "100%"}));
    plan::Graph again = plan::load_graph(file.path());
    if (round == 0)
      graph = std::move(again);
    else
      add_times(graph, again);
  }
  return graph;
}

struct Pair {
  ExampleRun eviction, plan;
};

std::string problem_of(const Row& row, const ExampleRun& run, const ExampleRun& plain, bool& failed) {
  std::string problem = problem_of(run, plain);
  failed = !problem.empty() && !run.smallest_bytes;
  if (!problem.empty() || run.peak_bytes <= row.budget_bytes()) return problem;
  failed = true;
  return "peak " + percent_of(run.peak_bytes, row.plain_bytes);
}

// Steps that followed their plan in all rounds, but for the first of them, which verifies.
std::vector<size_t> followed_steps(const std::vector<Pair>& rounds) {
  std::vector<size_t> steps;
  for (size_t i = 0; i < rounds[0].plan.step_followed_plan.size(); ++i) {
    const auto followed = [i](const Pair& pair) { return pair.plan.step_followed_plan[i] != 0; };
    if (std::all_of(rounds.begin(), rounds.end(), followed)) steps.push_back(i);
  }
  if (!steps.empty()) steps.erase(steps.begin());
  return steps;
}

double least_mean(const std::vector<Pair>& rounds, ExampleRun Pair::*which, const std::vector<size_t>& steps) {
  std::vector<double> means;
  for (const Pair& pair : rounds) {
    double sum = 0;
    for (const size_t i : steps) sum += (pair.*which).step_replay_seconds[i];
    means.push_back(sum / static_cast<double>(steps.size()));
  }
  return least(means);
}

void add_rounds(Row& row, const Options& options, const std::string& path, const ExampleRun& plain,
                std::optional<plan::Graph>& tape) {
  std::vector<Pair> rounds;
  for (int64_t round = 0; round < options.rounds; ++round) {
    const std::string bytes = std::to_string(row.budget_bytes());
    auto runs = run_example(path, arguments_of(options, {"--eviction", bytes, "--budget", bytes}));
    for (const ExampleRun& run : runs) {
      if (row.problem.empty()) row.problem = problem_of(row, run, plain, row.failed);
    }
    if (!row.problem.empty()) return;
    rounds.push_back({std::move(runs[0]), std::move(runs[1])});
  }
  std::vector<size_t> steps = followed_steps(rounds);
  if (!steps.empty()) {
    row.plan_seconds = least_mean(rounds, &Pair::plan, steps);
  } else {
    steps = {rounds[0].eviction.step_replay_seconds.size() - 1};
    if (!tape) tape = tape_of(options, path);
    simulate_plan(row, *tape);
  }
  row.eviction_seconds = least_mean(rounds, &Pair::eviction, steps);
}

std::vector<Row> measure_example(const Options& options, const std::string& name) {
  const std::string path = path_of_example(kCommand, name);
  const ExampleRun plain = run_example(path, arguments_of(options, {"--plain"}))[0];
  std::optional<plan::Graph> tape;
  std::vector<Row> rows;
  for (const double percent : options.percents) {
    Row row{.program = "examples/" + name,
            .percent = percent,
            .plain_bytes = plain.peak_bytes,
            .step_seconds = median(plain.step_seconds)};
    add_rounds(row, options, path, plain, tape);
    rows.push_back(std::move(row));
  }
  return rows;
}

// -- All of them --

std::vector<std::string> known_programs() {
  std::vector<std::string> names = models::names();
  for (const std::string& example : known_examples()) names.push_back("examples/" + example);
  return names;
}

std::vector<std::string> chosen(const Options& options) {
  const auto known = known_programs();
  for (const std::string& name : options.programs) check_is_known(name, known, "bench eviction", "program", "programs");
  const auto fits = [](double percent) { return percent > 0 && percent <= 100; };
  if (!std::all_of(options.percents.begin(), options.percents.end(), fits) || options.rounds < 1 || options.steps < 4)
    throw BadInput(
        "[bench eviction] that cannot be meant, nothing was run. Percents are above 0 and up to 100, --rounds 1 or "
        "more "
        "and --steps 4 or more: the first two have no plan, the third verifies.");
  if (!options.output.empty()) check_writable(kCommand, options.output);
  return options.programs.empty() ? known : options.programs;
}

std::vector<std::string> cells(const Row& row) {
  using report::fixed, report::human_bytes, report::human_seconds;
  std::vector<std::string> cells{row.program, human_bytes(row.plain_bytes), human_seconds(row.step_seconds),
                                 fixed(row.percent, 0) + " %"};
  if (!row.problem.empty()) {
    cells.push_back(row.problem);
    return cells;
  }
  cells.insert(cells.end(), {human_seconds(row.eviction_seconds), fixed(100 * row.eviction_share(), 1) + " %",
                             human_seconds(row.plan_seconds), fixed(100 * row.plan_share(), 1) + " %",
                             row.has_ratio() ? fixed(row.ratio(), 2) : "", row.simulated ? "simulated" : ""});
  return cells;
}

const std::vector<std::string> kHeader = {"program", "plain peak", "plain step", "budget", "eviction",
                                          "of step", "plan",       "of step",    "ratio",  "plan is"};

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json = {{"program", row.program},
                                 {"percent", row.percent},
                                 {"budget_bytes", row.budget_bytes()},
                                 {"plain_peak_bytes", row.plain_bytes},
                                 {"plain_step_seconds", row.step_seconds}};
  if (!row.problem.empty()) {
    json["problem"] = row.problem;
    return json;
  }
  json["eviction_seconds"] = row.eviction_seconds;
  json["plan_seconds"] = row.plan_seconds;
  json["ratio"] = row.has_ratio() ? nlohmann::ordered_json(row.ratio()) : nlohmann::ordered_json();
  json["simulated"] = row.simulated;
  return json;
}

std::string markdown_row(std::vector<std::string> cells) {
  cells.resize(kHeader.size());
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

constexpr double kQuietLoad = 1.5;  // its own, and a little more

// Of the last minute: how much others did beside it.
double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

std::string about_load(double before, double after) {
  const std::string busy = "**The machine was busy**: times are not to be relied on. ";
  return " " + (std::max(before, after) > kQuietLoad ? busy : "") + "Load average " + report::fixed(before, 1) +
         " when it began, " + report::fixed(after, 1) + " when it ended, on " +
         std::to_string(std::thread::hardware_concurrency()) + " cores.\n";
}

std::string markdown(const Options& options, const std::vector<Row>& rows, double load_before) {
  std::string text =
      "# Eviction against the planner\n\nWritten by `retrace bench eviction`: " + std::to_string(options.rounds) +
      " rounds, examples of " + std::to_string(options.steps) + " steps" + (options.small ? ", in miniature" : "") +
      "." + about_load(load_before, load_average()) + kHelp + "\n\n" + markdown_row(kHeader) +
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";
  for (const Row& row : rows) text += markdown_row(cells(row));
  const auto above = std::count_if(rows.begin(), rows.end(), [](const Row& row) {
    return row.problem.empty() && row.has_ratio() && row.ratio() > 1.5;
  });
  const auto compared =
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.problem.empty() && row.has_ratio(); });
  return text + "\nOf " + std::to_string(compared) + " ratios " + std::to_string(above) + " are above 1.5.\n";
}

int run(const Options& options, bool json) {
  const auto programs = chosen(options);
  const double load_before = load_average();
  setenv("OMP_NUM_THREADS", "1", 1);  // for the examples
  at::set_num_threads(1);
  std::vector<Row> rows;
  Progress progress(static_cast<int64_t>(programs.size()));
  for (const std::string& program : programs) {
    progress.show(program);
    const bool is_example = program.starts_with("examples/");
    const auto some =
        is_example ? measure_example(options, program.substr(program.find('/') + 1)) : measure_model(options, program);
    rows.insert(rows.end(), some.begin(), some.end());
    progress.advance();
  }
  report::Table table(kHeader);
  auto all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    table.add_row(cells(row));
    all.push_back(to_json(row));
  }
  std::cout << (json ? all.dump(2) + "\n" : table.str());
  if (!options.output.empty()) plan::write_whole(kCommand, options.output, markdown(options, rows, load_before));
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.failed; }) ? kFailed : kOk;
}

}  // namespace

void add_bench_eviction(CLI::App& bench, const bool& json, int& exit_code) {
  const auto options = std::make_shared<Options>();
  auto* const eviction = bench.add_subcommand("eviction", "What steps without a plan rebuild, against those with one");
  eviction->add_option("PROGRAM", options->programs, "One or more of " + join(known_programs()) + "; default: all");
  eviction->add_option("--percent", options->percents, "Budgets, of the plain peak")->capture_default_str();
  eviction->add_option("--rounds", options->rounds, "Steps of a model, runs of an example")->capture_default_str();
  eviction->add_option("--steps", options->steps, "Steps of a run of an example")->capture_default_str();
  eviction->add_flag("--small", options->small, "In miniature");
  eviction->add_option("-o", options->output, "Also write the table, as Markdown");
  eviction->fallthrough();  // --json is the parent's
  eviction->footer(kHelp);
  eviction->callback([&json, &exit_code, options] { exit_code = run(*options, json); });
}

}  // namespace retrace::cli
