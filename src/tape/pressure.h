// What an allocation asks of its thread's tape, without its lock.
#pragma once

#include <atomic>
#include <exception>

#include "policy/balance.h"

namespace retrace {

struct Pressure {
  std::atomic<bool> strict = false;  // see Strict
  SinceBalance since_balance;
  // Live when an operator was about to be replayed, without what it takes over to write on: all else that it has, it has in
  // passing. While one runs.
  std::atomic<int64_t> live_before_replay{0};
};

// While one lives, a shortage in which nothing can be let go of throws OverBudget instead of breaking a budget.
class Strict {
 public:
  explicit Strict(Pressure& pressure) : pressure_(pressure), before_(pressure.strict.exchange(true)) {}
  ~Strict() { pressure_.strict = before_; }
  Strict(const Strict&) = delete;
  Strict& operator=(const Strict&) = delete;

 private:
  Pressure& pressure_;
  const bool before_;
};

// Thrown through an operator's kernel by an allocation, and caught by replay, which then tries again with less at hand.
struct OverBudget : std::exception {
  const char* what() const noexcept override { return "over budget"; }
};

}  // namespace retrace
