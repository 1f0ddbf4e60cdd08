// What an allocation must know of its thread's tape, without the tape's lock.
#pragma once

#include <atomic>
#include <exception>

#include "policy/balance.h"

namespace retrace {

struct Pressure {
  std::atomic<bool> strict = false;  // see Strict
  SinceBalance since_balance;
  // While an operator is replayed: the bytes that were live before it, without the storage that it takes over to write
  // on. All else that it has, it has in passing. 0: none is replayed.
  std::atomic<int64_t> live_before_replay{0};
};

// While one lives, an allocation for which nothing can be let go of throws OverBudget instead of breaking a budget.
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

// Thrown by an allocation through an operator's kernel. Replay catches it, and tries again with less held.
struct OverBudget : std::exception {
  const char* what() const noexcept override { return "over budget"; }
};

}  // namespace retrace
