// retrace report: a tape as a page to look at, or as a trace for Perfetto.
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output_path.h"
#include "page_template.h"
#include "plan/file/disk.h"
#include "plan/file/file.h"
#include "policy/parse.h"
#include "report/budget_plans.h"
#include "report/ladder.h"
#include "report/perfetto.h"
#include "report/table.h"
#include "report_file.h"

namespace retrace::cli {
namespace {

constexpr const char* kHelp = R"(
The page is one file that needs nothing else: it opens in any browser, offline, and sends nothing anywhere. It shows
  - memory over the step by owner, with the peak marked and its bytes listed by layer, for the plain program, for each policy,
    and for the plan given with --plan;
  - memory against time for policies and for plans on a ladder of budgets (--budgets of them), with a slider;
  - the tape as a table: what each operator saved, how long it waits for backward, what rebuilding it costs.
All but the plain step is predicted from the tape, by the rules that the runtime follows.

--perfetto writes the step as a Chrome trace, for ui.perfetto.dev or chrome://tracing: operators of forward, of backward and
those run again, and live bytes by owner. The plain step comes first, then the step by --plan, or else under --policy.

Examples:
  retrace trace gpt -o run.tape && retrace report run.tape -o report.html
  retrace report run.tape --plan plan.json -o report.html
  retrace report run.tape --perfetto trace.json --policy every:2

Exit codes: 0 written, 1 something broke, 2 the command line, the tape or the plan cannot be meant. Nothing half-written is
left behind.)";

struct Options {
  std::string tape, plan, output, perfetto;
  std::string policy = "every:1";
  int budgets = 0;  // as many as usual
  bool json = false;
};

void check_options(const Options& options) {
  if (options.output.empty() && options.perfetto.empty()) {
    throw BadInput(
        "[report] neither -o nor --perfetto says where to write, nothing was read. Add -o report.html, say.");
  }
  if (!options.output.empty()) {
    check_writable("report", options.output);
    page_template();
  }
  if (!options.perfetto.empty()) check_writable("report", options.perfetto, "--perfetto");
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::optional<NamedPlan> read_plan(const Options& options, const plan::Graph& graph) {
  if (options.plan.empty()) return std::nullopt;
  NamedPlan plan{plan::load_plan(options.plan), file_name(options.plan)};
  try {
    report::graph_of(plan.plan, graph);
  } catch (const std::exception& error) {
    throw BadInput("[report] '" + options.plan + "' is no plan for '" + options.tape +
                   "', nothing was written. Make one with: retrace plan " + options.tape + " --budget B -o " +
                   options.plan + ". It said: " + error.what());
  }
  return plan;
}

size_t write_trace(const plan::Graph& graph, const std::optional<NamedPlan>& plan, const Options& options) {
  std::vector<report::Scenario> scenarios;
  scenarios.push_back(report::under_policy(graph, keep_all()));
  scenarios.back().name = "full";
  if (plan) {
    scenarios.push_back(
        report::under_plan(report::graph_of(plan->plan, graph), plan->plan, plan->name, report::ScenarioKind::file));
  } else {
    scenarios.push_back(report::under_policy(graph, parse_policy(options.policy, graph)));
  }
  const std::string trace = report::chrome_trace(graph, scenarios);
  plan::write_whole("report", options.perfetto, trace);
  return trace.size();
}

int run(const Options& options) {
  check_options(options);
  const plan::Graph graph = plan::load_graph(options.tape);
  const std::optional<NamedPlan> plan = read_plan(options, graph);
  nlohmann::ordered_json told = {{"tape", options.tape}, {"peak_bytes", plan::plain(graph).peak_bytes}};
  std::string text;
  const auto tell = [&](const char* kind, const std::string& path, size_t bytes, const std::string& next) {
    told[kind] = {{"path", path}, {"bytes", bytes}};
    text += "Written to " + path + " (" + report::human_bytes(static_cast<int64_t>(bytes)) + "). " + next + "\n";
  };
  if (!options.perfetto.empty())
    tell("perfetto", options.perfetto, write_trace(graph, plan, options), "Open it at ui.perfetto.dev.");
  if (!options.output.empty())
    tell("report", options.output,
         write_report(graph, file_name(options.tape), plan,
                      options.budgets > 0 ? options.budgets : report::usual_rungs(graph), options.output),
         "Open it in a browser.");
  std::cout << (options.json ? told.dump(2) + "\n" : text);
  return kOk;
}

}  // namespace

void add_report(CLI::App& program, int& exit_code) {
  auto* const report = program.add_subcommand("report", "A tape as a page to look at and decide with");
  const auto options = std::make_shared<Options>();
  report->add_option("TAPE", options->tape, "A tape file, from 'retrace trace' or session.save_tape()")->required();
  report->add_option("-o,--output", options->output, "The page to write, report.html say");
  report->add_option("--plan", options->plan, "A plan for this tape, to be shown too");
  report->add_option("--budgets", options->budgets, "Plans on the ladder of budgets")
      ->check(CLI::Range(2, 200))
      ->default_str("24, on a large tape 12");
  report->add_option("--perfetto", options->perfetto, "A Chrome trace to write, trace.json say");
  report->add_option("--policy", options->policy, "What the trace shows beside the plain step")->capture_default_str();
  report->add_flag("--json", options->json, "Say what was written as JSON");
  report->footer(kHelp);
  report->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
