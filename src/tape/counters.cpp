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
  return {.steps = steps,
          .ops_recorded = ops_recorded,
          .ops_replayed = ops_replayed,
          .replay_seconds = static_cast<double>(replay_nanoseconds) * 1e-9,
          .saved_tensors = saved_tensors,
          .dropped_tensors = dropped_tensors,
          .kept_bytes = kept_bytes,
          .tape_bytes = tape_bytes,
          .values_verified = values_verified};
}

Counters& process_counters() {
  static auto* const counters = new Counters;
  return *counters;
}

void count(const Account& account, Count what, int64_t n) {
  (process_counters().*what).fetch_add(n, std::memory_order_relaxed);
  if (account) ((*account).*what).fetch_add(n, std::memory_order_relaxed);
}

void raise(const Account& account, Count what, int64_t n) {
  raise_to(process_counters().*what, n);
  if (account) raise_to((*account).*what, n);
}

Stats stats() { return process_counters().read(); }

}  // namespace retrace
