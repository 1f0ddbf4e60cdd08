// A scope that draws from its own seed and puts the ambient CPU generator back afterwards.
#pragma once

#include <cstdint>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>

namespace models {

class SeedGuard {
 public:
  explicit SeedGuard(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeedGuard() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeedGuard(const SeedGuard&) = delete;
  SeedGuard& operator=(const SeedGuard&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace models
