// Operators no model would have, registered for these tests as retrace_test::*. None has a gradient of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace retrace::test {

// retrace_test::twice(Tensor x) -> Tensor: 2x, and counts how often it ran.
at::Tensor counted_twice(const at::Tensor& x);
int64_t times_run();  // since the last call of this function

// retrace_test::unstable(Tensor x) -> Tensor: another value at each call.
at::Tensor unstable(const at::Tensor& x);

// retrace_test::with_number(Tensor x) -> (Tensor, int): 3x and the number of rows. Counted like `twice`.
std::tuple<at::Tensor, int64_t> with_number(const at::Tensor& x);

// retrace_test::sine_and_cosine(Tensor x) -> (Tensor, Tensor). Counted like `twice`.
std::tuple<at::Tensor, at::Tensor> sine_and_cosine(const at::Tensor& x);

// retrace_test::fragile(Tensor x) -> Tensor: x + 1, or throws std::domain_error("too fragile") while broken.
at::Tensor fragile(const at::Tensor& x);
void break_fragile(bool broken);

// retrace_test::silent_double(Tensor x) -> (): doubles x in place, which neither the schema nor the version counter
// says.
void silent_double(const at::Tensor& x);
// The same of every tensor in a Dict(int, Tensor), which a recorder cannot store.
void silent_double_of_all(const std::vector<at::Tensor>& tensors);

}  // namespace retrace::test
