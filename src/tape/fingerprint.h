// A bitwise fingerprint of a tensor's elements: NaNs compare by their bits, -0 differs from 0.
// Taking one allocates no tensor memory, so that verifying cannot break a budget.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retrace {

uint64_t fingerprint(const at::Tensor& tensor);
uint64_t fingerprint(const c10::Storage& storage);  // of all its bytes

// Of a storage's bytes: all of them up to 16 KiB, else 64 pieces of 64 bytes spread evenly over it. Costs about a microsecond.
// Notices a tensor that was written as a whole or in a good part; need not notice a change of a few elements.
uint64_t sample(const c10::Storage& storage);

}  // namespace retrace
