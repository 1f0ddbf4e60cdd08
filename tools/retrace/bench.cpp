// retrace bench: what each policy saves and costs on one model.
#include <algorithm>
#include <cstdint>
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
#include "policy/parse.h"
#include "report/median.h"
#include "report/table.h"
#include "runner.h"

namespace retrace::cli {

namespace {

constexpr const char* kHelp = R"(
Policies:
  plain              no Retrace: the reference, always run
  keep_all           record, keep what autograd keeps
  recompute_all      keep nothing but the inputs
  every:N            keep every N-th cut vertex
  selective          keep matrix products and convolutions
  selective:OP,OP    keep the results of these operators
  sequential:N       checkpoint_sequential with N segments
  budget:B           the fastest plan found within B bytes of live tensors, weights included: 270MiB, 40%
  eviction:B         within B bytes without a plan, as the first step of a session is: 270MiB

Each policy first runs once from the same weights and seed as the plain run, and its loss, gradients and buffers are
compared bit for bit; where they differ no time is printed and the exit code is 1. Then the policies take turns, N
rounds of one step each, on one thread, with a plain step after every third. 'time' is the median over the rounds; 'ratio'
is the median of the ratios to the plain steps before and after, so that a slow moment of the machine moves it little.

Bytes are those of tensors: 'peak' all that were live at once, 'step peak' above what was live when the step began
(gradients count, weights do not), 'activations' the most that was live beside weights and gradients, 'kept' what the
forward pass left live for backward.

Examples:
  retrace bench gpt
  retrace bench unet --policy every:2 selective --steps 9
  retrace bench resnet50 --policy selective:aten::convolution,aten::mm --json
  retrace bench gpt --budget 60% 160MiB
  retrace bench gpt --budget sweep:12       from the smallest feasible budget to the plain peak
  retrace bench region)";

struct Options {
  std::string model;
  std::vector<std::string> policies;
  std::vector<std::string> budgets;
  int64_t steps = 7;
  std::string size = "bench";
  bool json = false;
};

models::Size size_of(const Options& options) {
  if (options.size == "bench") return models::Size::bench;
  if (options.size == "test") return models::Size::test;
  throw BadInput("[bench] --size '" + options.size + "' is neither bench nor test, nothing was run" +
                 did_you_mean(options.size, {"bench", "test"}) + " Use --size bench or --size test.");
}

void check_options(const Options& options) {
  const auto& names = models::names();
  const auto is_model = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string choices = " Choose one of " + join(names) + ", or region.";
  if (options.model.empty()) {
    const bool swallowed = !options.policies.empty() && is_model(options.policies.back());
    throw BadInput("[bench] no model is named, nothing was run." +
                   (swallowed
                        ? " Write the model before --policy: retrace bench " + options.policies.back() + " --policy ..."
                        : choices));
  }
  if (!is_model(options.model)) {
    auto known = names;
    known.push_back("region");
    const auto hint = did_you_mean(options.model, known);
    throw BadInput("[bench] no model is called '" + options.model + "', nothing was run" + hint + choices);
  }
  if (options.steps < 1) {
    throw BadInput("[bench] --steps " + std::to_string(options.steps) +
                   " leaves nothing to time. Use 1 or more; 7 is the default.");
  }
}

nlohmann::ordered_json to_json(const std::string& model, const Measurement& seen) {
  const bool timed = seen.gradients_identical();
  nlohmann::ordered_json row;
  row["model"] = model;
  row["policy"] = seen.policy;
  row["seconds_median"] = timed ? nlohmann::ordered_json(median(seen.seconds)) : nlohmann::ordered_json();
  row["ratio"] = timed ? nlohmann::ordered_json(median(seen.ratios)) : nlohmann::ordered_json();
  row["peak_bytes"] = seen.peak_bytes;
  row["step_peak_bytes"] = seen.step_peak_bytes;
  row["activation_bytes"] = seen.activation_bytes;
  row["kept_bytes"] = seen.kept_bytes;
  row["ops_recorded"] = seen.ops_recorded;
  row["ops_replayed"] = seen.ops_replayed;
  row["replay_seconds"] = timed ? nlohmann::ordered_json(median(seen.replay_seconds)) : nlohmann::ordered_json();
  row["gradients_identical"] = timed;
  if (seen.budget_bytes) {
    row["budget_bytes"] = *seen.budget_bytes;
    row["first_step_peak_bytes"] = seen.first_step_peak_bytes;
  }
  if (seen.plan) {
    row["predicted_peak_bytes"] = seen.predicted_peak_bytes;
    row["unforeseen_bytes"] = seen.unforeseen_bytes;
    row["predicted_seconds"] = seen.plan->seconds;
    row["bound_seconds"] = seen.plan->bound_seconds;
    row["gap"] = seen.plan->gap;
    row["values_kept"] = seen.plan->values_kept;
    row["values_encoded"] = seen.plan->values_encoded;
    row["values_rebuilt"] = seen.plan->values_rebuilt;
    row["encoded_bytes"] = seen.plan->encoded_bytes;
    row["encoded_plain_bytes"] = seen.plan->encoded_plain_bytes;
    row["strategy"] = seen.plan->strategy;
    row["planning_seconds"] = seen.plan->planning_seconds;
  }
  return row;
}

std::vector<std::string> to_cells(const Measurement& seen) {
  using report::fixed, report::human_bytes, report::human_seconds;
  const bool timed = seen.gradients_identical();
  return {seen.policy,
          timed ? human_seconds(median(seen.seconds)) : "-",
          timed ? fixed(median(seen.ratios), 3) : "-",
          human_bytes(seen.peak_bytes),
          human_bytes(seen.step_peak_bytes),
          human_bytes(seen.activation_bytes),
          human_bytes(seen.kept_bytes),
          std::to_string(seen.ops_recorded),
          std::to_string(seen.ops_replayed),
          timed ? human_seconds(median(seen.replay_seconds)) : "-",
          timed ? "yes" : "NO"};
}

// What the plans predicted, beside what came.
void print_plans(const std::vector<Measurement>& measurements) {
  using report::fixed, report::human_bytes, report::human_seconds;
  report::Table table({"plan", "budget", "first step", "peak", "predicted", "time", "predicted", "gap", "kept",
                       "encoded", "rebuilt", "planning"});
  bool any = false;
  for (const Measurement& seen : measurements) {
    if (!seen.plan || !seen.budget_bytes) continue;
    any = true;
    const PlanSummary& plan = *seen.plan;
    table.add_row({seen.policy, human_bytes(*seen.budget_bytes), human_bytes(seen.first_step_peak_bytes),
                   human_bytes(seen.peak_bytes), human_bytes(seen.predicted_peak_bytes),
                   seen.gradients_identical() ? human_seconds(median(seen.seconds)) : "-", human_seconds(plan.seconds),
                   fixed(100 * plan.gap, 2) + " %", std::to_string(plan.values_kept),
                   std::to_string(plan.values_encoded), std::to_string(plan.values_rebuilt),
                   human_seconds(plan.planning_seconds)});
  }
  if (any) std::cout << "\n" << table.str();
}

void print(const Options& options, const std::vector<Measurement>& measurements) {
  if (options.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const Measurement& seen : measurements) rows.push_back(to_json(options.model, seen));
    std::cout << rows.dump(2) << "\n";
    return;
  }
  report::Table table({options.model, "time", "ratio", "peak", "step peak", "activations", "kept", "ops", "replayed",
                       "replay", "identical"});
  for (const Measurement& seen : measurements) table.add_row(to_cells(seen));
  std::cout << table.str();
  print_plans(measurements);
}

std::vector<std::string> all_policies(const Options& options, const models::Model& model) {
  std::vector<std::string> policies = options.policies;
  for (const std::string& asked : options.budgets) {
    if (asked.rfind("sweep:", 0) == 0) {
      const auto sweep = sweep_of_budgets(model, parse_count(asked));
      policies.insert(policies.end(), sweep.begin(), sweep.end());
    } else {
      policies.push_back("budget:" + asked);
    }
  }
  return policies.empty() ? default_policies(model) : policies;
}

int run(const Options& options) {
  check_options(options);
  const models::Size size = size_of(options);
  warn_of_reference_blas();
  at::set_num_threads(1);
  const models::Model model = models::make_model(options.model, size);
  const auto measurements = compare(model, all_policies(options, model), options.steps);
  print(options, measurements);
  int code = kOk;
  for (const Measurement& seen : measurements) {
    if (seen.gradients_identical()) continue;
    std::cerr
        << "retrace: [bench] " << options.model << ", policy " << seen.policy << ": " << seen.difference
        << ". No time is printed for it. Unless it is an infeasible budget, this is a bug of Retrace or an operator "
           "that does not compute the same thing twice; please report it with this line.\n";
    code = kFailed;
  }
  return code;
}

}  // namespace

void add_bench(CLI::App& program, int& exit_code) {
  auto* const bench =
      program.add_subcommand("bench", "Compare policies on a model: bytes, time, and whether gradients agree");
  const auto options = std::make_shared<Options>();
  bench->add_option("MODEL", options->model,
                    join(models::names()) + "; or eviction, examples, planner, predictions, region (see below)");
  bench->add_option("--policy", options->policies, "One or more policies; default: a selection of all kinds");
  bench->add_option("--budget", options->budgets, "One or more budgets: 270MiB, 40%, sweep:12");
  bench->add_option("--steps", options->steps, "Rounds to time")->capture_default_str();
  bench->add_option("--size", options->size, "bench, or test: the same model in miniature")->capture_default_str();
  bench->add_flag("--json", options->json, "An array of one object per policy; bytes and seconds");
  bench->footer(kHelp);
  add_bench_eviction(*bench, options->json, exit_code);
  add_bench_examples(*bench, options->json, exit_code);
  add_bench_predictions(*bench, options->json, exit_code);
  add_bench_region(*bench, options->json, exit_code);
  bench->callback([bench, options, &exit_code] {
    if (bench->get_subcommands().empty()) exit_code = run(*options);
  });
}

}  // namespace retrace::cli
