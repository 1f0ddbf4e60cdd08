// A net of four layers, small enough to follow a step on paper: what is on the tape after each operator, under several
// policies.
//
// x0 = a·S, then four layers x' = x + tanh(x·W)·V, on 32 samples of 8 features, width 32 with 8 hidden features, in
// floats. A stream x is 4 KiB; a, S, z = x·W, g = tanh(z), W and V are 1 KiB each; h = g·V is 4 KiB. Autograd saves x
// (for the gradient of W) and g (for those of V and of tanh). The streams are the cut vertices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/graph/graph.h"

namespace retrace::report {

inline constexpr int kHandLayers = 4;

struct HandPart {
  std::string name;
  int64_t bytes = 0;
};

struct HandNet {
  struct Row {
    std::string what;  // "g2 = tanh z2", "back g2": backward through it
    size_t end_event;  // one past its last
    bool forward;
  };
  plan::Graph graph;  // values are named "x1", "g1", ...
  std::vector<Row> rows;
  std::vector<std::vector<HandPart>> gradients;  // by event: those that live until the next one, "dV4" of V4
};

HandNet make_hand_net();

// One policy's way through the net.
struct HandTrace {
  struct Moment {
    std::vector<std::string> held;       // on the tape after the row, for backward
    std::vector<std::string> rebuilt;    // of those that were forgotten, there again
    std::vector<std::string> ran_again;  // operators' results, in the order they were made
    int64_t live_bytes = 0;              // the most during the row, weights and gradients included
    std::vector<HandPart> parts;         // of that; they sum up to it
  };
  std::string policy;
  std::vector<std::string> kept;  // streams that the policy keeps
  std::vector<Moment> moments;    // by row
  size_t peak_row = 0;
  int64_t peak_bytes = 0;
  int64_t held_bytes = 0;  // when forward has ended
  int64_t ops_again = 0;
  double extra_seconds = 0;
};

// "full", or every:N: of x0, x1, x2, x3 each N-th is kept. x4 goes to the loss, and autograd does not save it.
HandTrace trace_full(const HandNet& net);
HandTrace trace_every(const HandNet& net, int n);

}  // namespace retrace::report
