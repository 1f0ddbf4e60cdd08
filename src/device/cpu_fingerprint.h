// Fingerprints of what is in the CPU's memory; device.h says what they promise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace retrace {

uint64_t cpu_fingerprint(const at::Tensor& tensor);
uint64_t cpu_fingerprint(const c10::Storage& storage);
uint64_t cpu_fingerprint(const c10::Storage& storage, size_t begin, size_t end);
uint64_t cpu_sample(const c10::Storage& storage);

}  // namespace retrace
