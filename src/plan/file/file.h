// Tapes and plans on disk.
//
// A tape file is ours, binary, little endian, versioned and checksummed: docs/tape-format.md. A plan file is JSON, for
// people to read. Both are written to a temporary file beside `path` that then takes its name, so that an error leaves
// what was there before.
//
// Readers believe nothing. A file that is missing, foreign, damaged, cut short, from a later version, or that describes
// what cannot be (NaN seconds, negative bytes, an op that reads the future) is a UsageError that names the file.
// Reading takes memory in proportion to the file's size, whatever its content claims.
#pragma once

#include <string>
#include <string_view>

#include "plan/graph/graph.h"
#include "plan/solve/plan.h"

namespace retrace::plan {

void save(const Graph& graph, const std::string& path);
Graph load_graph(const std::string& path);

void save(const Plan& plan, const std::string& path);
Plan load_plan(const std::string& path);  // whether it fits a graph, verify() tells

// A tape file's content without the file. `name` is for messages.
std::string to_bytes(const Graph& graph);
Graph from_bytes(std::string_view bytes, const std::string& name);

// A plan file's content without the file.
std::string to_json(const Plan& plan);
Plan from_json(std::string_view text, const std::string& name);

}  // namespace retrace::plan
