#include "tape/shared_tape.h"

#include <retrace/errors.h>

namespace retrace {
namespace {

// A thread that rebuilds values of one tape may lock others to let go of theirs; the last one it locked it unlocks first.
thread_local const SharedTape::Lock* latest_lock = nullptr;

}  // namespace

SharedTape::Lock::Lock(SharedTape& tape) {
  if (is_held(tape)) {
    throw InternalError(
        "[retrace] a thread that works on its tape began to do so once more, which would wait forever, so it was "
        "stopped: "
        "an operator that is being rebuilt must not run a backward over the graph it belongs to. If yours does not, "
        "please "
        "report this.");
  }
  tape.mutex_.lock();
  locked(tape);
}

SharedTape::Lock::Lock(SharedTape& tape, std::try_to_lock_t) {
  if (!is_held(tape) && tape.mutex_.try_lock()) locked(tape);
}

void SharedTape::Lock::locked(SharedTape& tape) {
  locked_ = &tape;
  before_ = std::exchange(latest_lock, this);
}

SharedTape::Lock::~Lock() {
  if (!locked_) return;
  const std::vector<c10::Storage> trash = locked_->tape_.take_trash();
  latest_lock = before_;
  locked_->mutex_.unlock();
}

bool SharedTape::Lock::is_any_held() { return latest_lock != nullptr; }

bool SharedTape::Lock::is_held(const SharedTape& tape) {
  const Lock* lock = latest_lock;
  while (lock && lock->locked_ != &tape) lock = lock->before_;
  return lock != nullptr;
}

SharedTape::Entry::Entry(SharedTape& tape, bool may_wait) {
  if (!Lock::is_held(tape)) {
    may_wait ? lock_.emplace(tape) : lock_.emplace(tape, std::try_to_lock);
    if (!lock_->has_it()) return;
  }
  tape_ = &tape.tape_;
}

}  // namespace retrace
