// A bitwise fingerprint of a tensor's elements: NaNs compare by their bits, -0 differs from 0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retrace {

uint64_t fingerprint(const at::Tensor& tensor);

}  // namespace retrace
