// Every difference between LibTorch 1.13 and 2.14 that the tests meet, in one place.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace retrace::test {

// Whether saved-tensor hooks can hand a tensor without grad back as the very object that was saved.
inline constexpr bool kHooksPreserveIdentity = TORCH_VERSION_MAJOR >= 2;

// While one lives, this thread runs eligible CPU operators in bfloat16 (or not, with enabled = false).
class Autocast {
 public:
  explicit Autocast(bool enabled = true) : before_(is_enabled()) {
    at::autocast::increment_nesting();
    set(enabled);
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  static bool is_enabled() {
#if TORCH_VERSION_MAJOR >= 2
    return at::autocast::is_autocast_enabled(at::kCPU);
#else
    return at::autocast::is_cpu_enabled();
#endif
  }

 private:
  static void set(bool enabled) {
#if TORCH_VERSION_MAJOR >= 2
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
#else
    at::autocast::set_cpu_enabled(enabled);
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
  }

  bool before_;
};

}  // namespace retrace::test
