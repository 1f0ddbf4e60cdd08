// Counts behind Stats, shared by whoever did the work and whoever asks.
#pragma once

#include <atomic>
#include <memory>

#include <retrace/stats.h>

namespace retrace {

class Counters {
 public:
  std::atomic<int64_t> steps{0}, ops_recorded{0}, ops_replayed{0}, replay_nanoseconds{0}, saved_tensors{0},
      dropped_tensors{0}, kept_bytes{0}, tape_bytes{0}, values_verified{0};

  Stats read() const;
};

using StepCounters = std::shared_ptr<Counters>;

Counters& process_counters();

using Count = std::atomic<int64_t> Counters::*;

// Adds to counters (may be null) and to the process.
void count(const StepCounters& counters, Count what, int64_t n = 1);

// Keeps the most that was seen, likewise.
void count_most(const StepCounters& counters, Count what, int64_t n);

}  // namespace retrace
