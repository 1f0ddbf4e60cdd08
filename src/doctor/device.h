// GPUs by name: memory, dense 16-bit FLOP/s of matrix products, bandwidth. docs/doctor.md names the sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retrace::doctor {

struct Device {
  std::string name = {};     // empty: only its memory is known
  int64_t memory_bytes = 0;  // 0: not known
  double flops = 0;          // per second, dense, bfloat16 or (where there is none) float16, float32 sums
  double bandwidth = 0;      // bytes per second

  double balance() const;  // FLOPs in the time of a byte; an A100's where nothing is known
};

const std::vector<Device>& devices();

// Throws UsageError that suggests the near names. "cpu" has no memory of its own: it must be told.
Device device_of(const std::string& name);

}  // namespace retrace::doctor
