// Work in vain: a long stretch of operators under no_grad, for a sample that is drawn or an evaluation. As a rule
// nothing of it is ever saved, so after some hundred operators it runs as if outside the step. If autograd saves a
// result after all, that is held, as by the plain program.
#pragma once

#include "tape/scope.h"

namespace retrace {

// Runs an operator of such a stretch; false if it has to be recorded.
bool run_unrecorded(const Scope& scope, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                    std::vector<c10::IValue>& stack);

}  // namespace retrace
