// Times what this thread does, without the time it spends letting go of values so that an allocation fits. That time
// belongs to the eviction, not to the operator that happened to be running.
#pragma once

#include <chrono>

#include "device/device.h"

namespace retrace::memory {

// While one lives, this thread makes space. One inside another adds nothing.
class MakingSpace {
 public:
  MakingSpace() : is_first_(!is_open_), begin_(is_first_ ? cpu().now() : Time()) { is_open_ = true; }
  ~MakingSpace() {
    if (!is_first_) return;
    is_open_ = false;
    spent_ += cpu().now() - begin_;
  }
  MakingSpace(const MakingSpace&) = delete;
  MakingSpace& operator=(const MakingSpace&) = delete;

 private:
  friend class Stopwatch;
  using Time = std::chrono::steady_clock::time_point;
  [[gnu::tls_model("initial-exec")]] static inline thread_local bool is_open_ = false;
  [[gnu::tls_model("initial-exec")]] static inline thread_local std::chrono::nanoseconds spent_{0};  // by this thread
  const bool is_first_;
  const Time begin_;
};

// Of one thread: asked on the one that made it.
class Stopwatch {
 public:
  Stopwatch() : making_space_(MakingSpace::spent_), begin_(cpu().now()) {}
  std::chrono::nanoseconds spent() const { return cpu().now() - begin_ - (MakingSpace::spent_ - making_space_); }

 private:
  std::chrono::nanoseconds making_space_;
  std::chrono::steady_clock::time_point begin_;
};

inline double seconds(std::chrono::nanoseconds spent) { return std::chrono::duration<double>(spent).count(); }

}  // namespace retrace::memory
