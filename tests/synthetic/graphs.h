// Graphs of training steps that were never run: for tests of the planner and for `retrace bench planner`.
// The same arguments give the same graph, on any machine.
#pragma once

#include "plan/graph/graph.h"

namespace retrace::plan {

// The GPT block of B4 T256 D384 H6, `layers` times: attention and MLP with dropout masks that can be held as bits, and
// weight gradients that fill up as backward proceeds.
Graph synthetic_transformer(int layers);

// Bottleneck blocks of convolution, batch norm and ReLU in place, in four stages that halve the pixels and double the
// channels.
Graph synthetic_resnet(int blocks_per_stage);

// A chain of cheap and expensive operators with a skip connection every few, of about `values` values.
Graph synthetic_chain(int values);

// A step that is so many times the given one, one backward after the other: accumulated gradients.
Graph repeated(const Graph& graph, int times);

// Small and odd: branches, results nobody saved, operators with several results, in-place chains, values saved twice,
// ways to be held. For tests that compare with the exact optimum.
Graph synthetic_random(uint32_t seed, int ops);

}  // namespace retrace::plan
