// The retrace command line.
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <retrace/errors.h>

#include "commands.h"
#include "near_names.h"

namespace {

constexpr const char* kExamples = R"(
Examples:
  retrace demo                               train a small GPT plain, checkpointed, and within half the memory
  retrace trace gpt -o run.tape              record one training step, of a model of ours or of a TorchScript file
  retrace explain run.tape                   what fills memory, and what each policy would make of it
  retrace explain mlp4                       a step of a 4-layer net, small enough to check on paper
  retrace plan run.tape --budget 60%         the fastest plan found within a budget, and a bound on the best
  retrace frontier run.tape -o x.svg         memory against time for every policy and for budgets
  retrace report run.tape -o report.html     a tape as a page to look at and decide with
  retrace doctor --params 7B --device h100   does it fit, and what to do if not
  retrace bench gpt                          what each policy saves and costs on the 8-block GPT
  retrace bench unet --policy every:2 selective --steps 9
  retrace bench resnet50 --policy selective:aten::convolution,aten::mm --json
  retrace bench region                       the fixed cost of one checkpoint
  retrace bench planner                      how long planning takes, and how far plans can be from the best
  retrace bench eviction gpt examples/nerf   what steps without a plan rebuild, against those that have one
  retrace bench predictions gpt              what a tape says of policies, beside what they then take
  retrace bench examples lstm nerf           whole training programs within 80 % and 60 %, against plain runs

Exit codes: 0 all is well; 1 gradients differ, a step failed, or a budget does not fit; 2 the command line, or a file it
names, cannot be meant.)";

std::vector<std::string> commands_of(const CLI::App& program) {
  std::vector<std::string> names;
  for (const auto* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// CLI11 would only say that a subcommand is required.
void check_command(const CLI::App& program, int argc, char** argv) {
  using namespace retrace::cli;
  const auto commands = commands_of(program);
  if (argc < 2) throw BadInput("no command is given. The commands are " + join(commands) + "; see retrace --help.");
  const std::string name = argv[1];
  if (name.starts_with("-") || std::find(commands.begin(), commands.end(), name) != commands.end()) return;
  throw BadInput("no command is called '" + name + "', nothing was run" + did_you_mean(name, commands) +
                 " The commands are " + join(commands) + "; see retrace --help.");
}

// The command that was being parsed, to point at its help: "bench ", or nothing.
std::string chosen(const CLI::App& program) {
  const auto parsed = program.get_subcommands();
  return parsed.empty() ? "" : parsed.front()->get_name() + " ";
}

int parse_and_run(CLI::App& program, int argc, char** argv, const int& exit_code) {
  using namespace retrace::cli;
  try {
    check_command(program, argc, argv);
    program.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // prints help or version
    std::cerr << "retrace: " << error.what() << ", nothing was run. See retrace " << chosen(program) << "--help.\n";
    return kBadInput;
  } catch (const BadInput& error) {
    std::cerr << "retrace: " << error.what() << "\n";
    return kBadInput;
  } catch (const retrace::UsageError& error) {
    std::cerr << "retrace: " << error.what() << "\n";
    return kBadInput;
  } catch (const c10::Error& error) {
    std::cerr << "retrace: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "retrace: " << error.what() << "\n";
  }
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Retrace: gradient checkpointing for LibTorch. Less memory, the same gradients to the last bit.",
                   "retrace");
  int exit_code = retrace::cli::kOk;
  program.set_version_flag("--version", std::string("retrace ") + RETRACE_VERSION);
  program.require_subcommand(1);
  program.footer(kExamples);
  retrace::cli::add_bench(program, exit_code);
  retrace::cli::add_bench_planner(*program.get_subcommand("bench"), exit_code);
  retrace::cli::add_demo(program, exit_code);
  retrace::cli::add_doctor(program, exit_code);
  retrace::cli::add_explain(program, exit_code);
  retrace::cli::add_plan(program, exit_code);
  retrace::cli::add_frontier(program, exit_code);
  retrace::cli::add_report(program, exit_code);
  retrace::cli::add_trace(program, exit_code);
  return parse_and_run(program, argc, argv, exit_code);
}
