#include "tape/counters.h"

#include <mutex>
#include <vector>

namespace retrace {
namespace {

constexpr Count kSums[] = {
    &Counters::steps,         &Counters::ops_recorded,    &Counters::ops_replayed,   &Counters::replay_nanoseconds,
    &Counters::saved_tensors, &Counters::dropped_tensors, &Counters::values_verified};
constexpr Count kMosts[] = {&Counters::kept_bytes, &Counters::tape_bytes};

void raise_to(std::atomic<int64_t>& maximum, int64_t n) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (n > seen && !maximum.compare_exchange_weak(seen, n)) {
  }
}

void add(Counters& to, const Counters& from) {
  for (const Count what : kSums) to.*what += from.*what;
  for (const Count what : kMosts) raise_to(to.*what, from.*what);
}

// An operator adds to one session's counts alone; the process's are summed up when somebody asks.
struct ProcessCounters {
  std::mutex mutex;
  std::vector<const ListedCounters*> sessions;
  Counters others;  // of what is in no session, and of sessions that are gone

  // Never destroyed: sessions may be static objects.
  static ProcessCounters& get() {
    static auto* const instance = new ProcessCounters;
    return *instance;
  }
};

Counters& of(Counters* counters) { return counters ? *counters : ProcessCounters::get().others; }

}  // namespace

ListedCounters::ListedCounters() {
  ProcessCounters& process = ProcessCounters::get();
  const std::lock_guard lock(process.mutex);
  process.sessions.push_back(this);
}

ListedCounters::~ListedCounters() {
  ProcessCounters& process = ProcessCounters::get();
  const std::lock_guard lock(process.mutex);
  std::erase(process.sessions, this);
  add(process.others, *this);
}

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

void count(Counters* counters, Count what, int64_t n) { (of(counters).*what).fetch_add(n, std::memory_order_relaxed); }

void count_alone(Counters* counters, Count what) {
  if (!counters) return count(counters, what);
  std::atomic<int64_t>& counter = counters->*what;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void count_most(Counters* counters, Count what, int64_t n) { raise_to(of(counters).*what, n); }

Stats stats() {
  ProcessCounters& process = ProcessCounters::get();
  const std::lock_guard lock(process.mutex);
  Counters total;
  add(total, process.others);
  for (const ListedCounters* const session : process.sessions) add(total, *session);
  return total.read();
}

}  // namespace retrace
