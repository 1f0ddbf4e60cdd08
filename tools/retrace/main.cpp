// The retrace command line.
#include <exception>
#include <iostream>
#include <string>

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <retrace/errors.h>

#include "commands.h"

namespace {

constexpr const char* kExamples = R"(
Examples:
  retrace demo                               train a small GPT plain and checkpointed, side by side
  retrace bench gpt                          what each policy saves and costs on the 8-block GPT
  retrace bench unet --policy every:2 selective --steps 9
  retrace bench resnet50 --policy selective:aten::convolution,aten::mm --json
  retrace bench region                       the fixed cost of one checkpoint

Exit codes: 0 all is well, 1 gradients differ or a step failed, 2 the command line cannot be meant.)";

int parse_and_run(CLI::App& program, int argc, char** argv, const int& exit_code) {
  using namespace retrace::cli;
  try {
    program.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? kOk : kBadInput;  // prints help, version or the complaint
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
  retrace::cli::add_demo(program, exit_code);
  return parse_and_run(program, argc, argv, exit_code);
}
