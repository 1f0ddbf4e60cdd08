// retrace bench predictions: what a tape says of policies, beside what they then take.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "blas.h"
#include "commands.h"
#include "comparison.h"
#include "near_names.h"
#include "plan/file/file.h"
#include "policy/parse.h"
#include "report/median.h"
#include "report/policy_figures.h"
#include "report/table.h"
#include "runner.h"

namespace retrace::cli {
namespace {

using report::fixed;
using report::human_bytes;

constexpr int kTapeSteps = 3;           // the shortest time of each operator is what the tape has
constexpr double kMostBytesOff = 0.01;  // and never below
constexpr size_t kFirstColumn = 16, kColumn = 12;

constexpr const char* kHelp = R"(
One step of each model is recorded as a tape, as 'retrace trace' does. What the tape says of each policy stands beside what the
policy then takes: peaks by the byte counter, times as ratios to the plain steps before and after, medians over the rounds. 'off'
is the prediction less what was seen, in percent of that; 'spread' is half the distance of the ratios' quartiles: what is within
it may be the machine's noise.

Gradients are compared first, bit for bit; where they differ no time is printed and the exit code is 1. So it is where a peak was
above its prediction, or more than 1 % below. A row is printed when it is known; a policy is timed beside plain steps of its own.

Examples:
  retrace bench predictions gpt
  retrace bench predictions resnet50 unet --policy every:1 selective --steps 15)";

struct Options {
  std::vector<std::string> models;
  std::vector<std::string> policies = {"keep_all", "every:1", "every:2", "every:4", "selective", "recompute_all"};
  int64_t steps = 7;
  std::string size = "bench";
};

struct Row {
  report::PolicyFigures predicted;
  double predicted_ratio = 0;
  Measurement seen;

  double bytes_off() const {
    return static_cast<double>(predicted.peak_bytes) / static_cast<double>(seen.peak_bytes) - 1;
  }
  double time_off() const { return predicted_ratio / median(seen.ratios) - 1; }
};

double spread(std::vector<double> values) {
  if (values.size() < 4) return 0;
  std::sort(values.begin(), values.end());
  return (values[values.size() * 3 / 4] - values[values.size() / 4]) / 2;
}

plan::Graph tape_of(const models::Model& model) {
  Runner runner("budget:100%", model);
  for (int i = 0; i < kTapeSteps; ++i) {
    for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
    runner.step(model);
  }
  const auto path = std::filesystem::temp_directory_path() / ("retrace_bench_" + std::to_string(::getpid()) + ".tape");
  runner.session()->save_tape(path.string());
  plan::Graph graph = plan::load_graph(path.string());
  std::filesystem::remove(path);
  for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
  return graph;
}

Row measure(const models::Model& model, const plan::Graph& graph, const std::string& policy, int64_t steps) {
  Row row{report::figures_of(graph, parse_policy(policy, graph)), 0, compare(model, {policy}, steps).back()};
  row.predicted_ratio = row.predicted.ratio(graph.seconds);
  return row;
}

std::string signed_percent(double share) { return (share < 0 ? "" : "+") + fixed(100 * share, 2) + " %"; }

// A row is printed as soon as it is known, so columns have fixed widths.
void print_row(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t width = i == 0 ? kFirstColumn : kColumn;
    const std::string blanks(cells[i].size() < width ? width - cells[i].size() : 0, ' ');
    line += i == 0 ? cells[i] + blanks : blanks + cells[i];
  }
  std::cout << report::trimmed_line(std::move(line)) << std::flush;
}

void print(const Row& row) {
  if (!row.seen.gradients_identical()) return print_row({row.seen.policy, "differs"});
  print_row({row.seen.policy, human_bytes(row.seen.peak_bytes), human_bytes(row.predicted.peak_bytes),
             signed_percent(row.bytes_off()), fixed(median(row.seen.ratios), 3) + "x",
             fixed(row.predicted_ratio, 3) + "x", signed_percent(row.time_off()),
             fixed(100 * spread(row.seen.ratios), 1) + " %"});
}

// What is wrong with it; times are for people to judge.
std::string fault_of(const Row& row) {
  if (!row.seen.gradients_identical()) return row.seen.difference + ". No time is printed for it";
  if (row.bytes_off() < 0 || row.bytes_off() > kMostBytesOff)
    return "its peak of " + std::to_string(row.seen.peak_bytes) + " bytes was predicted as " +
           std::to_string(row.predicted.peak_bytes) + ", which is below it or more than 1 % above";
  return "";
}

nlohmann::ordered_json to_json(const std::string& model, const Row& row) {
  nlohmann::ordered_json all{{"model", model},
                             {"policy", row.seen.policy},
                             {"gradients_identical", row.seen.gradients_identical()},
                             {"predicted_peak_bytes", row.predicted.peak_bytes},
                             {"predicted_ratio", row.predicted_ratio}};
  if (!row.seen.gradients_identical()) return all;
  all.update({{"peak_bytes", row.seen.peak_bytes},
              {"ratio", median(row.seen.ratios)},
              {"ratio_spread", spread(row.seen.ratios)}});
  return all;
}

int run(const Options& options, bool json) {
  for (const std::string& name : options.models)
    check_is_known(name, models::names(), "bench predictions", "model", "models");
  warn_of_reference_blas();
  at::set_num_threads(1);
  const models::Size size = options.size == "test" ? models::Size::test : models::Size::bench;
  auto all = nlohmann::ordered_json::array();
  int code = kOk;
  for (const std::string& name : options.models.empty() ? models::names() : options.models) {
    if (!json) print_row({name, "peak", "predicted", "off", "time", "predicted", "off", "spread"});
    const models::Model model = models::make_model(name, size);
    const plan::Graph graph = tape_of(model);
    for (const std::string& policy : options.policies) {
      const Row row = measure(model, graph, policy, options.steps);
      all.push_back(to_json(name, row));
      if (!json) print(row);
      const std::string fault = fault_of(row);
      if (fault.empty()) continue;
      code = kFailed;
      std::cerr << "retrace: [bench predictions] " << name << ", policy " << policy << ": " << fault << ".\n";
    }
    if (!json) std::cout << std::endl;
  }
  if (json) std::cout << all.dump(2) << "\n";
  return code;
}

}  // namespace

void add_bench_predictions(CLI::App& bench, const bool& json, int& exit_code) {
  const auto options = std::make_shared<Options>();
  auto* const predictions =
      bench.add_subcommand("predictions", "What a tape says of policies, beside what they then take");
  predictions->add_option("MODEL", options->models, join(models::names()) + "; without any, all");
  predictions->add_option("--policy", options->policies, "Policies; not budgets")->capture_default_str();
  predictions->add_option("--steps", options->steps, "Rounds to time")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  predictions->add_option("--size", options->size, "bench, or test: the same models in miniature")
      ->check(CLI::IsMember({"bench", "test"}))
      ->capture_default_str();
  predictions->footer(kHelp);
  predictions->fallthrough();  // --json is the parent's
  predictions->callback([options, &json, &exit_code] { exit_code = run(*options, json); });
}

}  // namespace retrace::cli
