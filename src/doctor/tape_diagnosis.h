// A recorded step on a device: what fills its memory, what each policy would do, and the one to take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/diagnosis.h"
#include "doctor/oom.h"
#include "doctor/tape_facts.h"
#include "doctor/two_tapes.h"
#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"

namespace retrace::doctor {

struct TapeRow {
  std::string name, code;
  int64_t peak_bytes = 0;
  double extra = 0;  // rebuilding, as a part of the step's time
  bool fits = false;
  int64_t largest_batch = 0;  // from two tapes: 0 if not even 1 fits
};

// What is left if some of what was there before the step went elsewhere.
struct TapeMeans {
  std::string name;
  int64_t bytes = 0;
  bool fits = false;
};

struct TapeDiagnosis {
  std::string source;                 // "run.tape"
  std::optional<int64_t> batch = {};  // if two tapes tell
  Memory memory = {};
  std::optional<OomMessage> oom = {};

  TapeFacts facts = {};
  int64_t added_state = 0;  // of an optimizer that had not made it yet when the step was recorded
  double seconds = 0;
  size_t operators = 0;
  int64_t plain_bytes = 0;
  int64_t smallest_bytes =
      0;  // budget that holds; of steps of more than 4,000 operators, the leanest named policy's peak
  plan::Owners at_peak = {};  // of the plain step
  int64_t start_gradients = 0;

  std::vector<TapeRow> rows = {};       // the plain step, then named policies
  std::optional<TapeRow> planned = {};  // the memory as a budget
  std::vector<TapeMeans> means = {};    // if not even the smallest budget fits

  bool fits() const { return memory.bytes > 0 && plain_bytes <= memory.usable(); }
  const TapeRow* advised() const;  // the fastest that fits, the budget included; null if none
};

struct TapeRequest {
  std::string source;
  Memory memory = {};
  std::optional<OomMessage> oom = {};
  std::optional<Optimizer> optimizer = {};  // whose state is to be counted, if the tape has less
};

TapeDiagnosis diagnose(const plan::Graph& graph, const TapeRequest& request);
TapeDiagnosis diagnose(const TwoTapes& tapes, int64_t batch, const TapeRequest& request);

std::string to_text(const TapeDiagnosis& diagnosis);
std::string to_json(const TapeDiagnosis& diagnosis);

// A message alone, without a model: what it says, and what to do to learn more.
std::string to_text(const OomMessage& message);
std::string to_json(const OomMessage& message);

}  // namespace retrace::doctor
