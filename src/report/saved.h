// What forward leaves on the tape for backward: where each saved value comes from, how long it waits, and what it would
// take to have it again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/graph/graph.h"
#include "report/step_times.h"

namespace retrace::report {

struct SavedValue {
  plan::ValueId value = plan::kNone;
  plan::OpId op = plan::kNone;  // that made it; none: it came from outside, or cannot be made again
  int64_t bytes = 0;            // on the tape; 0 for what came from outside and is there anyway
  int32_t times = 0;            // that autograd saved it
  double made_seconds = 0;      // since the step began: at the end of its operator
  double taken_seconds = 0;     // when backward first asks for it, or lets go of it unasked

  double wait_seconds() const { return taken_seconds > made_seconds ? taken_seconds - made_seconds : 0; }
};

struct Rebuild {
  double seconds = 0;
  int64_t ops = 0;
  double flops = 0;       // of those that could be counted (report/flops.h)
  int64_t uncounted = 0;  // products whose FLOPs the tape does not tell
};

// Saved values with a common name: of one layer, or of one kind of operator.
struct SavedGroup {
  std::string name;
  int64_t ops = 0;     // that forward ran
  int64_t values = 0;  // saved
  int64_t bytes = 0;
  double longest_wait_seconds = 0;
  Rebuild rebuild{};  // of all of it, everything else that was saved being there
  std::vector<plan::ValueId> members{};
};

class SavedTape {
 public:
  SavedTape(const plan::Graph& graph, const StepTimes& times);  // the graph must outlive it

  const std::vector<SavedValue>& values() const { return values_; }  // in the order they were made; outside ones first
  int64_t bytes() const { return bytes_; }
  int64_t outside() const { return outside_; }  // how many came from outside: weights, inputs

  const Rebuild& forward() const { return forward_; }  // all that ran

  // What running again takes to have these values, everything else that autograd saved being there.
  Rebuild rebuild(const std::vector<plan::ValueId>& forgotten) const;

  std::vector<SavedGroup> by_layer() const;  // in the order of forward
  std::vector<SavedGroup> by_operator()
      const;  // cheapest to have again per byte first; what cannot be had again is left out

 private:
  template <class NameOf>
  std::vector<SavedGroup> grouped(NameOf name_of) const;

  const plan::Graph& graph_;
  std::vector<SavedValue> values_;
  std::vector<std::optional<double>> flops_;  // by op
  Rebuild forward_;
  std::vector<char> saved_;                // by value
  mutable std::vector<uint32_t> visited_;  // by op: in the latest rebuild()
  mutable uint32_t visit_ = 0;
  int64_t bytes_ = 0, outside_ = 0;
};

// The layer an operator belongs to: the first part of its module's path, with the number that follows it: "blocks.3" of
// "blocks.3.mlp.fc1". "(no layer)" if its module is not known.
std::string layer_of(const plan::Op& op);

// Whether backward of this operator computes again what forward did, inside itself: fused attention. Names of
// operators, of LibTorch 1.13 to 2.14.
bool recomputes_inside(const std::string& op_name);

}  // namespace retrace::report
