// Floating point operations of one operator, counted from shapes on the tape.
#pragma once

#include <optional>

#include "plan/graph/graph.h"

namespace retrace::report {

// Products of matrices, convolutions and fused attention: two for each multiplication with its addition, as PyTorch's
// FlopCounterMode counts them; attention without regard to a mask. 0 for all others, which take a few per element. None
// if the shapes on the tape do not tell: an old file, or an operator whose formula is not known here.
std::optional<double> flops_of(const plan::Graph& graph, const plan::Op& op);

}  // namespace retrace::report
