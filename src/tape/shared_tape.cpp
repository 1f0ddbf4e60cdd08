#include "tape/shared_tape.h"

#include <thread>

#include <retrace/errors.h>

namespace retrace {
namespace {

// A thread that rebuilds values of one tape may lock others to let go of theirs; the last one it locked it unlocks
// first.
[[gnu::tls_model("initial-exec")]] thread_local const SharedTape::Lock* latest_lock = nullptr;

[[noreturn]] void refuse_second_lock() {
  throw InternalError(
      "[backward] a thread that works on a tape was about to lock it once more, which would wait forever, so it was "
      "stopped. An operator that is being rebuilt must not run a backward over the graph it belongs to; if yours does "
      "not, please report this.");
}

}  // namespace

// Taken several times per operator: a few instructions count.
SharedTape::Lock::Lock(SharedTape& tape) : locked_(&tape) {
  const Lock*& latest = latest_lock;
  if (latest && is_held(tape)) refuse_second_lock();
  tape.mutex_.lock();
  before_ = std::exchange(latest, this);
}

SharedTape::Lock::Lock(SharedTape& tape, std::try_to_lock_t) {
  if (is_held(tape) || !tape.mutex_.try_lock()) return;
  locked_ = &tape;
  before_ = std::exchange(latest_lock, this);
}

SharedTape::Lock::~Lock() {
  if (!locked_) return;
  latest_lock = before_;
  if (locked_->tape_.has_trash()) {
    const std::vector<c10::Storage> trash = locked_->tape_.take_trash();
    locked_->mutex_.unlock();
  } else {
    locked_->mutex_.unlock();
  }
}

bool SharedTape::Lock::is_any_held() { return latest_lock != nullptr; }

bool SharedTape::Lock::is_held(const SharedTape& tape) {
  const Lock* lock = latest_lock;
  while (lock && lock->locked_ != &tape) lock = lock->before_;
  return lock != nullptr;
}

void SharedTape::Lock::lend_all(bool lent) {
  for (const Lock* lock = latest_lock; lock; lock = lock->before_) {
    lock->locked_->lent_.store(lent, std::memory_order_release);
  }
}

SharedTape::Entry::Entry(SharedTape& tape, Clock::time_point until) {
  constexpr std::chrono::microseconds kBetweenLooks{50};
  bool borrowed = Lock::is_held(tape);
  while (!borrowed) {
    lock_.emplace(tape, std::try_to_lock);
    if (lock_->has_it()) break;
    borrowed = tape.lent_.load(std::memory_order_acquire);
    if (borrowed) break;
    if (Clock::now() >= until) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  tape_ = &tape.tape_;
}

SharedTape::Entry::Entry(SharedTape& tape, bool may_wait) {
  if (!Lock::is_held(tape)) {
    may_wait ? lock_.emplace(tape) : lock_.emplace(tape, std::try_to_lock);
    if (!lock_->has_it()) return;
  }
  tape_ = &tape.tape_;
}

}  // namespace retrace
