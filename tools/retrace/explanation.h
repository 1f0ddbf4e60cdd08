// All that `retrace explain` tells about a tape, and its two forms: text and JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/graph/graph.h"
#include "report/policy_figures.h"
#include "report/saved.h"
#include "report/step_times.h"

namespace retrace::cli {

struct Explanation {
  Explanation(std::string tape, const plan::Graph& graph);  // which must outlive it

  std::string tape;  // its path
  const plan::Graph& graph;
  report::StepTimes times;
  report::SavedTape saved;
  report::PolicyFigures full;                     // what the program does without a policy
  std::vector<report::PolicyFigures> policies{};  // to compare
};

struct TextOptions {
  bool ops = false;         // every operator of the tape, not only layers
  std::string layer;        // of those, only this one's; empty: all
  size_t rows = 24;         // of a table at most; 0: all
  size_t columns = 80;      // of the terminal
  bool all_curves = false;  // of every policy, not of full storage alone
};

std::string text_of(const Explanation& explanation, const TextOptions& options);
nlohmann::ordered_json json_of(const Explanation& explanation, bool ops);

// "backward, at aten::gelu of block7.up": where in a step an event is.
std::string place_of(const plan::Graph& graph, size_t event);

// "4x256x1536 float32": how the result looks that a value is; empty if the tape does not tell.
std::string look_of(const plan::Graph& graph, plan::ValueId value);

}  // namespace retrace::cli
