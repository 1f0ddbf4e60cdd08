// The programs in examples/, run as they are: in processes of their own, with what they print taken apart.
//
//   const auto runs = run_example("build/release/examples/lstm", {"--small", "--plain", "--budget", "60%"});
//   runs[1].digits == runs[0].digits && runs[1].peak_bytes <= runs[0].peak_bytes * 6 / 10
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace retrace::cli {

// One setting (plain, a policy, a budget) from the first step to the last.
struct ExampleRun {
  std::string setting;
  std::string digits;                     // what the program itself printed
  int exit_code = 0;                      // 3: refused; if not 0, nothing below is known
  std::optional<int64_t> smallest_bytes;  // the budget was refused, and this one would do

  double seconds = 0;  // of all steps, what is between them, and the session's end
  int64_t peak_bytes = 0;
  int64_t end_bytes = 0;  // live when the program has let go of all it had
  int64_t operators = 0;  // recorded in the last step
  int64_t plans = 0;
  double planning_seconds = 0;
  std::vector<double> step_seconds, step_replay_seconds;
  std::vector<int64_t> step_peak_bytes;
  std::vector<int> step_followed_plan;  // to its end: 1, else 0
};

// One per setting among the arguments, in their order; one plain run if there is none. What the program writes to
// stderr goes to ours. Throws std::runtime_error if it cannot be started or prints something else.
std::vector<ExampleRun> run_example(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace retrace::cli
