// Counting what Retrace did and what it held, over a piece of a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include <retrace/memory.h>
#include <retrace/stats.h>

namespace retrace::test {

// Fails the test if the scope ends with more or fewer live bytes than it began with.
class NothingLeaks {
 public:
  NothingLeaks() = default;
  ~NothingLeaks() { EXPECT_EQ(memory::live_bytes(), before_) << "live bytes did not return to where they were"; }
  NothingLeaks(const NothingLeaks&) = delete;
  NothingLeaks& operator=(const NothingLeaks&) = delete;

 private:
  int64_t before_ = memory::live_bytes();
};

// Live bytes since construction.
class LiveDelta {
 public:
  int64_t bytes() const { return memory::live_bytes() - before_; }

 private:
  int64_t before_ = memory::live_bytes();
};

// The most bytes live above what was live at the beginning, while `work` ran.
template <class Work>
int64_t peak_above_start(Work&& work) {
  memory::reset_peak();
  const int64_t before = memory::live_bytes();
  std::forward<Work>(work)();
  return memory::peak_bytes() - before;
}

// What the process's counters gained since construction. kept_bytes and tape_bytes are maxima and have no difference.
class StatsDelta {
 public:
  int64_t steps() const { return stats().steps - before_.steps; }
  int64_t recorded() const { return stats().ops_recorded - before_.ops_recorded; }
  int64_t replayed() const { return stats().ops_replayed - before_.ops_replayed; }
  int64_t saved() const { return stats().saved_tensors - before_.saved_tensors; }
  int64_t dropped() const { return stats().dropped_tensors - before_.dropped_tensors; }
  int64_t verified() const { return stats().values_verified - before_.values_verified; }

 private:
  Stats before_ = stats();
};

}  // namespace retrace::test
