// A tape that several threads use, and its lock. Nobody gets at the tape without the lock: whoever has a Tape& holds
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>

#include "tape/tape.h"

namespace retrace {

class SharedTape {
 public:
  SharedTape(bool tags_weights, Tape::Rebuild rebuild) : tape_(tags_weights, rebuild) {}

  const Pressure& pressure() const { return tape_.pressure; }  // atomic: needs no lock

  // What was let go of while it was locked is destroyed after unlocking, since that may run foreign deleters.
  class Lock {
   public:
    explicit Lock(SharedTape& tape);  // throws InternalError if this thread has it already
    Lock(SharedTape& tape, std::try_to_lock_t);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    bool has_it() const { return locked_ != nullptr; }
    Tape& operator*() const { return locked_->tape_; }
    Tape* operator->() const { return &locked_->tape_; }

    static bool is_any_held();  // by this thread
    static bool is_held(const SharedTape& tape);
    // Whether other threads may borrow the tapes that this thread has locked: while it waits for its turn to make
    // space.
    static void lend_all(bool lent);

   private:
    SharedTape* locked_ = nullptr;
    const Lock* before_ = nullptr;  // this thread's previous one
  };

  // For code that LibTorch calls in the middle of our own work: a governor (in an allocation), a handle that dies. The
  // thread may hold the lock already; then it goes on with that.
  class Entry {
   public:
    explicit Entry(SharedTape& tape, bool may_wait = true);  // without waiting, has_it() may be false
    // Waits for the lock until a point in time. If the thread that has it lends it meanwhile (lend_all()), borrows it.
    // For the thread whose turn it is to make space.
    using Clock = std::chrono::steady_clock;
    Entry(SharedTape& tape, Clock::time_point until);

    bool has_it() const { return tape_ != nullptr; }
    Tape& operator*() const { return *tape_; }
    Tape* operator->() const { return tape_; }

   private:
    std::optional<Lock> lock_;
    Tape* tape_ = nullptr;
  };

 private:
  std::mutex mutex_;
  std::atomic<bool> lent_{false};
  Tape tape_;
};

}  // namespace retrace
