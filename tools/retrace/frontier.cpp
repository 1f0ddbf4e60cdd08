// retrace frontier: memory against time.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output_path.h"
#include "plan/file/disk.h"
#include "progress.h"
#include "report/frontier.h"
#include "report/table.h"
#include "tape_input.h"
#include "terminal.h"

namespace retrace::cli {
namespace {

using report::fixed;
using report::FrontierPoint;
using report::human_bytes;

constexpr const char* kHelp = R"(
Every policy is a point: so much memory, so much time. The named ones are predicted from the tape: full storage, every:N for each
N (a dial, not a switch; above 16, and on tapes of more than 5000 operators, a selection), selective, and recompute_all. The
planner answers for any budget; here for a ladder of them, from the smallest at a bearable price (below it a little less memory
can double the time) to the plain peak. What another point beats in both is marked 'worse'.

Memory is the peak of all live tensor bytes, weights included. Time is of the whole step, full storage being 1.

Examples:
  retrace frontier run.tape
  retrace frontier run.tape -o frontier.svg
  retrace frontier run.tape --budgets 0               named policies alone: no search, an answer at once
  retrace frontier run.tape --policy full every:2 selective:aten::mm --json

Exit codes: 0 all is well, 2 the command line or the tape cannot be meant.)";

constexpr size_t kUsualPolicies = 16;  // about as many as there are, for the progress bar

struct Options {
  std::string tape, output;
  std::vector<std::string> policies;
  int budgets = 8;
  bool json = false;
};

nlohmann::ordered_json to_json(const FrontierPoint& point, double plain_seconds) {
  const report::PolicyFigures& f = point.figures;
  nlohmann::ordered_json row{{"policy", f.policy}, {"planned", point.planned}, {"fits", f.fits}};
  if (f.budget_bytes) row["budget_bytes"] = *f.budget_bytes;
  if (!f.fits) {
    row["smallest_bytes"] = f.smallest_bytes;
    return row;
  }
  row["peak_bytes"] = f.peak_bytes;
  row["average_bytes"] = f.average_bytes;
  row["seconds"] = f.step_seconds;
  row["ratio"] = f.ratio(plain_seconds);
  row["operators_again"] = f.ops_again;
  row["dominated"] = point.dominated;
  if (f.plan) {
    row["bound_seconds"] = f.plan->bound_seconds;
    row["gap"] = f.plan->gap();
  }
  return row;
}

std::string json_text(const Options& options, const report::Frontier& frontier) {
  auto points = nlohmann::ordered_json::array();
  for (const FrontierPoint& point : frontier.points) points.push_back(to_json(point, frontier.plain_seconds));
  const nlohmann::ordered_json all{{"tape", options.tape},
                                   {"plain_bytes", frontier.plain_bytes},
                                   {"plain_seconds", frontier.plain_seconds},
                                   {"smallest_bytes", frontier.smallest_bytes},
                                   {"points", points}};
  return to_text(all);
}

std::string table_text(const report::Frontier& frontier) {
  report::Table table({"", "policy", "peak", "of full", "average", "step", "run again", "gap", ""}, 2);
  for (const FrontierPoint& point : frontier.points) {
    const report::PolicyFigures& f = point.figures;
    const std::string mark = point.planned ? "●" : std::string(1, point.mark);
    const std::string name = point.planned ? "budget " + human_bytes(*f.budget_bytes) : f.policy;
    if (!f.fits) {
      table.add_row({mark, name, "does not fit"});
      continue;
    }
    const double share = static_cast<double>(f.peak_bytes) / static_cast<double>(frontier.plain_bytes);
    table.add_row({mark, name, human_bytes(f.peak_bytes), fixed(100 * share, 1) + " %",
                   human_bytes(static_cast<int64_t>(f.average_bytes)), fixed(f.ratio(frontier.plain_seconds), 3) + "x",
                   std::to_string(f.ops_again), f.plan ? fixed(100 * f.plan->gap(), 1) + " %" : "",
                   point.dominated ? "worse" : ""});
  }
  return table.str();
}

std::string text(const Options& options, const report::Frontier& frontier) {
  std::string all = options.tape + ": plain peak " + human_bytes(frontier.plain_bytes) + ", plain step " +
                    report::human_seconds(frontier.plain_seconds) +
                    (frontier.smallest_bytes > 0 ? ", budgets from " + human_bytes(frontier.smallest_bytes) : "") +
                    "\n\n" + table_text(frontier) +
                    "\nTime of a step against its peak; ● plans for budgets, letters as in the table\n\n" +
                    draw_frontier(frontier, terminal_columns());
  if (!options.output.empty()) all += "\nWritten to " + options.output + ".\n";
  return all;
}

int run(const Options& options) {
  if (!options.output.empty()) check_writable("frontier", options.output);
  const plan::Graph graph = read_tape("frontier", options.tape);
  const report::Frontier frontier = [&] {
    Progress progress(static_cast<int64_t>(options.policies.empty() ? kUsualPolicies : options.policies.size()) +
                      options.budgets + 1);
    bool first = true;
    return report::find_frontier(graph, options.policies, options.budgets, [&](const std::string& next) {
      if (!first) progress.advance();
      first = false;
      progress.show(next);
    });
  }();
  if (!options.output.empty())
    plan::write_whole("frontier", options.output,
                      frontier_svg(frontier, "Memory and time of one step: " +
                                                 std::filesystem::path(options.tape).filename().string()));
  std::cout << (options.json ? json_text(options, frontier) : text(options, frontier));
  return kOk;
}

}  // namespace

void add_frontier(CLI::App& program, int& exit_code) {
  auto* const frontier = program.add_subcommand("frontier", "Memory against time for every policy and for budgets");
  const auto options = std::make_shared<Options>();
  frontier->add_option("TAPE", options->tape, "A tape file");
  frontier->add_option("--policy", options->policies, "These policies instead of all; see retrace explain --help");
  frontier->add_option("--budgets", options->budgets, "How many budgets to plan for")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  frontier->add_option("-o,--output", options->output, "Write the picture here, as SVG");
  frontier->add_flag("--json", options->json, "One object; bytes and seconds");
  frontier->footer(kHelp);
  frontier->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
