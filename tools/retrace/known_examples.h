// The programs of examples/ as `bench` takes them: which were built, where, and whether what they did can be used.
#pragma once

#include <string>
#include <vector>

#include "example.h"

namespace retrace::cli {

std::vector<std::string> known_examples();

// Throws BadInput in the name of `command` if the program is not there.
std::string path_of_example(const std::string& command, const std::string& example);

// Why it has no figures, against the plain run: "refused: smallest 61.2 %"; empty if it has.
std::string problem_of(const ExampleRun& run, const ExampleRun& plain);

}  // namespace retrace::cli
