// A plan for one step as choices for another one that is like it: other sizes, another length, another branch in the middle.
#pragma once

#include "plan/graph/graph.h"

namespace retrace::plan {

// What an operator is, sizes aside: its name, what it reads, writes and makes. Equal for operators that do the same.
uint64_t kind_of(const Op& op);

// Choices for `to`, from choices for `from`. Operators that are the same in the same order, from the beginning, from the end
// and in between, take theirs over, result by result. What has no counterpart gets what most results of such operators got,
// or, if there are none, what a first step does: what autograd saved is kept. Whether they fit a budget is for a
// simulation to say, or for eviction to see to.
Choices carry_over(const Choices& choices, const Graph& from, const Graph& to);

}  // namespace retrace::plan
