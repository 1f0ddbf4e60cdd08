// The subcommands, one file each. Each adds itself to the program and, when chosen, leaves its exit code:
// 0 all is well, 1 a check failed or something broke, 2 the command line cannot be meant.
#pragma once

#include <stdexcept>

namespace CLI {
class App;
}

namespace retrace::cli {

inline constexpr int kOk = 0, kFailed = 1, kBadInput = 2;

// The user's mistake. The message says what, the consequence, and what to do.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void add_bench(CLI::App& program, int& exit_code);
void add_bench_eviction(CLI::App& bench, const bool& json, int& exit_code);
void add_bench_examples(CLI::App& bench, const bool& json, int& exit_code);
void add_bench_planner(CLI::App& bench, int& exit_code);
void add_bench_predictions(CLI::App& bench, const bool& json, int& exit_code);
void add_bench_region(CLI::App& bench, const bool& json, int& exit_code);
void add_demo(CLI::App& program, int& exit_code);
void add_doctor(CLI::App& program, int& exit_code);
void add_explain(CLI::App& program, int& exit_code);
void add_frontier(CLI::App& program, int& exit_code);
void add_plan(CLI::App& program, int& exit_code);
void add_report(CLI::App& program, int& exit_code);
void add_trace(CLI::App& program, int& exit_code);

int explain_mlp4(bool json);  // the hand trace; prints it

}  // namespace retrace::cli
