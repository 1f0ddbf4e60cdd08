// Around what LibTorch itself leaks (see compare() in outcome.cpp): LeakSanitizer, if it is there, looks away.
#pragma once

extern "C" {
void __lsan_disable() __attribute__((weak));  // NOLINT(bugprone-reserved-identifier): their names
void __lsan_enable() __attribute__((weak));   // NOLINT(bugprone-reserved-identifier)
}

namespace retrace::random {

class MayLeak {
 public:
  explicit MayLeak(bool may) : may_(may && __lsan_disable != nullptr) {
    if (may_) __lsan_disable();
  }
  ~MayLeak() {
    if (may_) __lsan_enable();
  }
  MayLeak(const MayLeak&) = delete;
  MayLeak& operator=(const MayLeak&) = delete;

 private:
  const bool may_;
};

}  // namespace retrace::random
