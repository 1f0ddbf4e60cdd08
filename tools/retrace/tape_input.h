// A tape as the commands that read one take it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/graph/graph.h"

namespace retrace::cli {

// Names in it are fit to be printed: what is not UTF-8, or would steer a terminal, is a '?'. Throws BadInput in the
// name of `command` if no tape is named, and UsageError if it cannot be read.
plan::Graph read_tape(const std::string& command, const std::string& path);

// Bytes that are no UTF-8 (a path may have such) are replaced.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace retrace::cli
