#include "known_examples.h"

#include <filesystem>
#include <sstream>

#include "commands.h"
#include "report/table.h"

namespace retrace::cli {

std::vector<std::string> known_examples() {
  std::vector<std::string> names;
  std::istringstream list(RETRACE_EXAMPLES);
  for (std::string name; list >> name;) names.push_back(name);
  return names;
}

std::string path_of_example(const std::string& command, const std::string& example) {
  const std::string path = std::string(RETRACE_EXAMPLES_DIR) + "/" + example;
  if (std::filesystem::exists(path)) return path;
  throw BadInput("[" + command + "] " + path +
                 " is not there, nothing was run. The examples are run where they were built: scripts/build release.");
}

std::string problem_of(const ExampleRun& run, const ExampleRun& plain) {
  if (plain.exit_code != 0) return "fails without Retrace, too";
  if (run.smallest_bytes)
    return "refused: smallest " +
           report::fixed(100.0 * static_cast<double>(*run.smallest_bytes) / static_cast<double>(plain.peak_bytes), 1) +
           " %";
  if (run.exit_code != 0) return "exit code " + std::to_string(run.exit_code);
  if (run.digits != plain.digits) return "prints other digits than without Retrace";
  return "";
}

}  // namespace retrace::cli
