// retrace plan: what a budget would take.
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <retrace/budget.h>

#include "commands.h"
#include "output_path.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "progress.h"
#include "report/policy_figures.h"
#include "report/saved.h"
#include "report/table.h"
#include "tape_input.h"

namespace retrace::cli {
namespace {

using report::fixed;
using report::human_bytes;
using report::human_seconds;

constexpr const char* kHelp = R"(
A budget is the peak of all live tensor bytes during the step: weights, gradients, optimizer state and activations. The planner
looks for the fastest way to stay within it: each value that backward needs is kept, held in fewer bytes where that is
possible, or forgotten and rebuilt. A simulator that follows the runtime's own rules judges each plan; its peak is exact.

'bound' is proven: no plan within the budget takes less time for the step. 'gap' is how far the plan can be from the best one.

A budget is written as bytes (123456), with a unit (270MiB, 1.5GiB, 800MB), or in percent of the plain peak (60%).

Examples:
  retrace plan run.tape --budget 60%
  retrace plan run.tape --budget 270MiB -o plan.json
  retrace plan run.tape --budget 1.5GiB --json | jq .ratio

Exit codes: 0 a plan was found, 1 the budget is too small (the smallest that holds is named), 2 the command line or the tape
cannot be meant.)";

struct Options {
  std::string tape, budget, output;
  bool json = false;
};

int64_t bytes_of(const Budget& budget, int64_t plain_bytes) {
  if (budget.bytes()) return *budget.bytes();
  return static_cast<int64_t>(std::floor(*budget.fraction() * static_cast<double>(plain_bytes)));
}

std::string owners_text(const plan::Owners& o) {
  return "weights " + human_bytes(o.weights) + ", gradients " + human_bytes(o.gradients) + ", kept " +
         human_bytes(o.kept) + ", rebuilt " + human_bytes(o.rebuilt) + ", other " + human_bytes(o.other);
}

std::string percent(double part, double whole) { return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-"; }

// What becomes of what autograd saved.
struct Fates {
  int64_t values = 0;
  int64_t kept = 0, encoded = 0, rebuilt = 0;  // bytes as they are
};

Fates& operator+=(Fates& sum, const Fates& more) {
  sum.values += more.values, sum.kept += more.kept, sum.encoded += more.encoded, sum.rebuilt += more.rebuilt;
  return sum;
}

Fates fate_of(const plan::Graph& graph, const plan::Plan& plan, const report::SavedValue& saved) {
  const plan::Choice choice = plan.choices[plan::at(saved.value)];
  const bool can_be_rebuilt = graph.values[plan::at(saved.value)].producer != plan::kNone;
  const bool kept = !can_be_rebuilt || choice == plan::Choice::keep();
  const bool encoded = can_be_rebuilt && choice.holds() && !kept;
  return {1, kept ? saved.bytes : 0, encoded ? saved.bytes : 0, kept || encoded ? 0 : saved.bytes};
}

std::string layers_text(const plan::Graph& graph, const plan::Plan& plan) {
  constexpr size_t kMost = 40;
  const report::SavedTape tape(graph, report::StepTimes(graph));
  std::vector<std::pair<std::string, Fates>> rows;
  std::map<std::string, size_t> positions;
  for (const report::SavedValue& saved : tape.values()) {
    if (saved.op == plan::kNone) continue;
    const std::string layer = report::layer_of(graph.ops[plan::at(saved.op)]);
    const auto [found, is_new] = positions.try_emplace(layer, rows.size());
    if (is_new) rows.emplace_back(layer, Fates{});
    rows[found->second].second += fate_of(graph, plan, saved);
  }
  report::Table table({"layer", "saved", "kept", "in fewer bytes", "rebuilt"});
  Fates rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, f] = rows[i];
    if (i >= kMost)
      rest += f;
    else
      table.add_row({report::shortened(name, 32), std::to_string(f.values), human_bytes(f.kept), human_bytes(f.encoded),
                     human_bytes(f.rebuilt)});
  }
  if (rest.values > 0)
    table.add_row({"(" + std::to_string(rows.size() - kMost) + " more)", std::to_string(rest.values),
                   human_bytes(rest.kept), human_bytes(rest.encoded), human_bytes(rest.rebuilt)});
  return table.str();
}

std::string held_text(const plan::Plan& plan) {
  std::string text;
  for (const HeldValues& held : plan.held) {
    if (held.values == 0) continue;
    text += "  " + held.kind + ": " + std::to_string(held.values) + " values, " + human_bytes(held.bytes);
    text += (held.bytes == held.plain_bytes ? "" : " instead of " + human_bytes(held.plain_bytes)) + "\n";
  }
  return text;
}

void print_text(const Options& options, const plan::Graph& graph, const report::PolicyFigures& figures,
                int64_t plain_bytes) {
  const plan::Plan& plan = *figures.plan;
  const double plain = graph.seconds;
  const plan::Owners& o = plan.at_peak;
  std::cout << options.tape << " within " << human_bytes(plan.budget_bytes) << ", "
            << percent(static_cast<double>(plan.budget_bytes), static_cast<double>(plain_bytes))
            << " of the plain peak (" << human_bytes(plain_bytes) << ")\n\n"
            << "  peak   " << human_bytes(plan.peak_bytes) << " predicted: weights " << human_bytes(o.weights)
            << ", gradients " << human_bytes(o.gradients) << ",\n         kept " << human_bytes(o.kept) << ", rebuilt "
            << human_bytes(o.rebuilt) << ", other " << human_bytes(o.other) << "\n"
            << "  time   " << human_seconds(plan.seconds) << " predicted, " << fixed(plan.seconds / plain, 3)
            << " times the plain step; " << human_seconds(plan.replay_seconds) << " of it to\n         run "
            << figures.ops_again << " operators again, to store and to load\n"
            << "  bound  " << human_seconds(plan.bound_seconds) << ": no plan within the budget takes less; gap "
            << fixed(100 * plan.gap(), 2) << " %\n"
            << "  found  in " << human_seconds(plan.planning_seconds) << ", by '" << plan.strategy << "'\n\n"
            << "Held for backward:\n"
            << held_text(plan) << "\n"
            << layers_text(graph, plan) << "\nIn a program:\n  retrace::Session session(retrace::budget(\""
            << retrace::budget(options.budget).text() << "\"));\n";
  if (!options.output.empty()) std::cout << "Written to " << options.output << ".\n";
}

void print_json(const Options& options, const plan::Graph& graph, const report::PolicyFigures& figures,
                int64_t plain_bytes) {
  nlohmann::ordered_json all{{"tape", options.tape},
                             {"plain_bytes", plain_bytes},
                             {"plain_seconds", graph.seconds},
                             {"budget_bytes", *figures.budget_bytes},
                             {"fits", figures.fits}};
  if (figures.fits) {
    const plan::Plan& plan = *figures.plan;
    all.update({{"peak_bytes", plan.peak_bytes},
                {"seconds", plan.seconds},
                {"ratio", figures.ratio(graph.seconds)},
                {"replay_seconds", plan.replay_seconds},
                {"operators_again", figures.ops_again},
                {"average_bytes", figures.average_bytes},
                {"bound_seconds", plan.bound_seconds},
                {"gap", plan.gap()},
                {"strategy", plan.strategy},
                {"planning_seconds", plan.planning_seconds}});
  } else {
    all["smallest_bytes"] = figures.smallest_bytes;
  }
  std::cout << to_text(all);
}

int refuse(const report::PolicyFigures& figures) {
  std::cerr << "retrace: [plan] no plan fits " << human_bytes(*figures.budget_bytes)
            << ", nothing was written. The smallest budget known to hold is " << figures.smallest_bytes << " bytes ("
            << human_bytes(figures.smallest_bytes) << "), filled by " << owners_text(figures.smallest_at_peak) << ".\n";
  return kFailed;
}

int run(const Options& options) {
  if (options.budget.empty())
    throw BadInput(
        "[plan] no budget is given, nothing was done. Say how much memory there is: --budget 1.5GiB, or --budget 60%.");
  const Budget budget = retrace::budget(options.budget);
  if (!options.output.empty()) check_writable("plan", options.output);
  const plan::Graph graph = read_tape("plan", options.tape);
  const int64_t plain_bytes = plan::plain(graph).peak_bytes;
  const report::PolicyFigures figures = [&] {
    const Waiting waiting("planning");
    return report::figures_within(graph, bytes_of(budget, plain_bytes));
  }();
  if (options.json) print_json(options, graph, figures, plain_bytes);
  if (!figures.fits) return refuse(figures);
  if (!options.output.empty()) plan::save(*figures.plan, options.output);
  if (!options.json) print_text(options, graph, figures, plain_bytes);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& program, int& exit_code) {
  auto* const plan =
      program.add_subcommand("plan", "What a memory budget would cost, and how near that is to the best");
  const auto options = std::make_shared<Options>();
  plan->add_option("TAPE", options->tape, "A tape file");
  plan->add_option("--budget", options->budget, "270MiB, 1.5GiB, 60%");
  plan->add_option("-o,--output", options->output, "Write the plan here, as JSON");
  plan->add_flag("--json", options->json, "One object; bytes and seconds");
  plan->footer(kHelp);
  plan->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
