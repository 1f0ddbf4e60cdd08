// Counts behind Stats, shared by whoever did the work and whoever asks.
#pragma once

#include <atomic>
#include <memory>

#include <retrace/stats.h>

namespace retrace {

struct Counters {
  std::atomic<int64_t> steps{0}, ops_recorded{0}, ops_replayed{0}, replay_nanoseconds{0}, saved_tensors{0},
      dropped_tensors{0}, kept_bytes{0}, tape_bytes{0}, values_verified{0};

  Stats read() const;
};

// Part of the process's totals, while it is there and afterwards.
struct ListedCounters final : Counters {
  ListedCounters();
  ~ListedCounters();
  ListedCounters(const ListedCounters&) = delete;
  ListedCounters& operator=(const ListedCounters&) = delete;
};
using StepCounters = std::shared_ptr<ListedCounters>;

using Count = std::atomic<int64_t> Counters::*;

// Adds to a session's counters; null: to those of what is in none.
void count(Counters* counters, Count what, int64_t n = 1);

// The same for what only one thread counts in a session, which is cheaper.
void count_alone(Counters* counters, Count what);

// Keeps the most that was seen, likewise.
void count_most(Counters* counters, Count what, int64_t n);

}  // namespace retrace
