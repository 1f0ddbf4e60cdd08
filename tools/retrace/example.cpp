#include "example.h"

#include <cstdio>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace retrace::cli {

namespace {

constexpr int kRefused = 3;

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("[example] cannot start " + command);
  std::string output;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, count);
  pclose(pipe);  // what it exits with is told run by run
  return output;
}

void read_figures(const std::string& line, ExampleRun& run) {
  const auto figures = nlohmann::json::parse(line);
  if (figures.contains("smallest_bytes")) {
    run.exit_code = kRefused;
    run.smallest_bytes = figures.at("smallest_bytes");
    return;
  }
  if (figures.contains("exit_code")) {
    run.exit_code = figures.at("exit_code");
    return;
  }
  run.setting = figures.at("setting");
  run.seconds = figures.at("seconds");
  run.peak_bytes = figures.at("peak_bytes");
  run.end_bytes = figures.at("end_bytes");
  run.operators = figures.at("operators");
  run.plans = figures.at("plans");
  run.planning_seconds = figures.at("planning_seconds");
  run.step_seconds = figures.at("step_seconds").get<std::vector<double>>();
  run.step_replay_seconds = figures.at("step_replay_seconds").get<std::vector<double>>();
  run.step_peak_bytes = figures.at("step_peak_bytes").get<std::vector<int64_t>>();
  run.step_followed_plan = figures.at("step_followed_plan").get<std::vector<int>>();
}

}  // namespace

std::vector<ExampleRun> run_example(const std::string& path, const std::vector<std::string>& arguments) {
  std::string command = quoted(path);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  std::istringstream output(output_of(command));
  std::vector<ExampleRun> runs(1);
  for (std::string line; std::getline(output, line);) {
    if (line.starts_with("{")) {
      read_figures(line, runs.back());
      runs.emplace_back();
    } else {
      runs.back().digits += line + "\n";
    }
  }
  if (!runs.back().digits.empty() || runs.size() == 1)
    throw std::runtime_error("[example] " + command + " did not print its figures to the end");
  runs.pop_back();
  return runs;
}

}  // namespace retrace::cli
