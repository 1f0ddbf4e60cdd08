// What a recorded step says about its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/graph/graph.h"

namespace retrace::doctor {

struct KeptGroup {
  std::string name;  // of layers of one kind ("blocks.*.mlp"), or of the operator that made them
  int64_t bytes = 0, tensors = 0;
};

struct TapeFacts {
  int64_t weights = 0;
  int64_t gradients = 0;             // the most there were at once
  int64_t before = 0;                // live before the step beside weights: optimizer state, data, old gradients
  int64_t activations = 0;           // saved by autograd at the turn from forward to backward, each storage once
  std::vector<KeptGroup> kept = {};  // what those are, the largest first
};

TapeFacts facts_of(const plan::Graph& graph);

}  // namespace retrace::doctor
