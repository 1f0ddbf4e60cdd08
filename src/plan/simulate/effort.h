// How much work a search has done, and how much more it may do. Counted, not timed: the same graph gives the same plan
// on any machine, whatever else the machine is doing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stop_token>
#include <utility>

namespace retrace::plan {

// Effort is counted in simulated events, or as much other work. A core of 2020 does about so many in a second, within a
// factor of two or so.
inline constexpr int64_t kEventsPerSecond = 10'000'000;
inline constexpr int64_t kUnlimited = INT64_MAX;

inline int64_t events_in(double seconds) {
  return static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) * static_cast<double>(kEventsPerSecond));
}

class Effort {
 public:
  // At `most_events` the effort is exhausted. A search ends at the next event once `stop` is requested.
  explicit Effort(std::stop_token stop = {}, int64_t most_events = kUnlimited)
      : stop_(std::move(stop)), most_(most_events), limit_(most_events) {}

  void spend(int64_t events) { spent_ += events; }
  int64_t spent() const { return spent_; }

  void allow(int64_t events) { limit_ = events < most_ - spent_ ? spent_ + events : most_; }  // so many from now on
  void allow_all() { limit_ = most_; }
  void renew(int64_t most_events) {  // as if it began here
    most_ = most_events < kUnlimited - spent_ ? spent_ + most_events : kUnlimited;
    limit_ = most_;
  }

  bool stopped() const { return stop_.stop_requested(); }
  bool exhausted() const { return spent_ >= limit_ || stopped(); }

 private:
  std::stop_token stop_;
  int64_t most_, limit_;
  int64_t spent_ = 0;
};

}  // namespace retrace::plan
