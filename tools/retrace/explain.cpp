// retrace explain: a tape to read.
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "explanation.h"
#include "near_names.h"
#include "policy/parse.h"
#include "progress.h"
#include "report/saved.h"
#include "tape_input.h"
#include "terminal.h"

namespace retrace::cli {
namespace {

constexpr const char* kHelp = R"(
A training step writes a tape: forward puts on it what backward will need, backward reads it in reverse. 'explain' shows it:
  - live bytes over the step, with the peak (it happens once) and the average (what throughput sees);
  - per layer, what it saved, how long that waits until backward takes it, and what rebuilding it would cost;
  - per kind of operator, what is cheap to run again, in time and in FLOPs, and large in bytes, so worth forgetting; and what
    already recomputes inside itself (fused attention), so that forgetting it is wasted work;
  - what each policy would make of the step, before anything is launched: peak, average, extra time, and which operators run
    again how often.

Policies:
  full               keep what autograd keeps: the plain program (also keep_all)
  every:N            keep every N-th cut vertex, such as the stream between two blocks
  selective          keep matrix products and convolutions
  selective:OP,OP    keep the results of these operators
  recompute_all      keep nothing but the inputs
  budget:B           the fastest plan found within B: 270MiB, 40%. Takes a search of seconds

'retrace explain mlp4' needs no tape: a 4-layer net, step by step, for three policies side by side, with every number small
enough to check on paper.

Examples:
  retrace trace gpt -o run.tape && retrace explain run.tape
  retrace explain run.tape --policy full every:1 every:4 budget:60%
  retrace explain run.tape --layer block3
  retrace explain run.tape --json | jq '.policies[] | [.policy, .peak_bytes, .ratio]'
  retrace explain mlp4

Exit codes: 0 all is well, 1 a budget that was asked for does not fit, 2 the command line or the tape cannot be meant.)";

struct Options {
  std::string tape;
  std::vector<std::string> policies;
  TextOptions text;
  bool json = false;
};

std::vector<std::string> policies_of(const Options& options) {
  if (!options.policies.empty()) return options.policies;
  return {"full", "every:1", "every:2", "every:4", "selective", "recompute_all"};
}

// A layer is called by its own name or by one inside it.
void check_layer(const std::string& layer, const plan::Graph& graph) {
  if (layer.empty()) return;
  std::set<std::string> known;
  for (const plan::Op& op : graph.ops) {
    known.insert(op.module);
    known.insert(report::layer_of(op));
    if (op.module == layer || op.module.starts_with(layer + ".")) return;
  }
  for (const plan::Value& value : graph.values) {
    if (value.name == layer || value.name.starts_with(layer + ".")) return;
  }
  throw BadInput("[explain] no layer of the tape is called '" + layer + "', nothing was done" +
                 did_you_mean(layer, {known.begin(), known.end()}));
}

int run(const Options& options) {
  if (options.tape == "mlp4") return explain_mlp4(options.json);
  const plan::Graph graph = read_tape("explain", options.tape);
  check_layer(options.text.layer, graph);
  std::vector<Policy> policies;
  for (const std::string& text : policies_of(options)) policies.push_back(parse_policy(text, graph));
  Explanation explanation(options.tape, graph);
  {
    Progress progress(static_cast<int64_t>(policies.size()));
    for (size_t i = 0; i < policies.size(); ++i) {
      progress.show(policies_of(options)[i]);
      explanation.policies.push_back(report::figures_of(graph, policies[i]));
      explanation.policies.back().policy = policies_of(options)[i];
      progress.advance();
    }
  }
  if (options.json) {
    std::cout << to_text(json_of(explanation, options.text.ops));
  } else {
    TextOptions text = options.text;
    text.ops |= !text.layer.empty();
    text.columns = terminal_columns();
    text.all_curves = !options.policies.empty();
    std::cout << text_of(explanation, text);
  }
  for (const report::PolicyFigures& figures : explanation.policies) {
    if (!figures.fits) return kFailed;
  }
  return kOk;
}

}  // namespace

void add_explain(CLI::App& program, int& exit_code) {
  auto* const explain = program.add_subcommand("explain", "Read a tape: what fills memory, and what policies would do");
  const auto options = std::make_shared<Options>();
  explain->add_option("TAPE", options->tape, "A tape file; or mlp4, the hand trace");
  explain->add_option("--policy", options->policies, "One or more policies to compare; default: a selection");
  explain->add_flag("--ops", options->text.ops, "Every saved value, not only layers");
  explain->add_option("--layer", options->text.layer, "Every saved value of this layer, \"block3\" or \"block3.up\"");
  explain->add_option("--rows", options->text.rows, "Rows of a table at most; 0: all")->capture_default_str();
  explain->add_flag("--json", options->json, "One object; bytes and seconds");
  explain->footer(kHelp);
  explain->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace retrace::cli
