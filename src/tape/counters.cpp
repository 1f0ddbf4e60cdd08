#include "tape/counters.h"

namespace retrace {
namespace {

void raise_to(std::atomic<int64_t>& maximum, int64_t n) {
  int64_t seen = maximum.load();
  while (n > seen && !maximum.compare_exchange_weak(seen, n)) {
  }
}

}  // namespace

Stats Counters::read() const {
  Stats s;
  s.steps = steps;
  s.ops_recorded = ops_recorded;
  s.ops_replayed = ops_replayed;
  s.replay_seconds = static_cast<double>(replay_nanoseconds) * 1e-9;
  s.saved_tensors = saved_tensors;
  s.dropped_tensors = dropped_tensors;
  s.kept_bytes = kept_bytes;
  s.tape_bytes = tape_bytes;
  s.values_verified = values_verified;
  return s;
}

Counters& process_counters() {
  static auto* const counters = new Counters;
  return *counters;
}

void count(const StepCounters& counters, Count what, int64_t n) {
  (process_counters().*what).fetch_add(n, std::memory_order_relaxed);
  if (counters) ((*counters).*what).fetch_add(n, std::memory_order_relaxed);
}

void count_most(const StepCounters& counters, Count what, int64_t n) {
  raise_to(process_counters().*what, n);
  if (counters) raise_to((*counters).*what, n);
}

Stats stats() { return process_counters().read(); }

}  // namespace retrace
