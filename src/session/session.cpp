#include <retrace/session.h>

#include <mutex>
#include <thread>

#include <retrace/errors.h>

#include "session/testing.h"
#include "tape/scope.h"

namespace retrace {
namespace detail {

class SessionState {
 public:
  SessionState(Policy p, SessionOptions o) : policy(std::move(p)), options(o) {}

  const Policy policy;
  const SessionOptions options;
  std::mutex mutex;                                // guards what follows
  Account account = std::make_shared<Counters>();  // of the latest step
  int64_t steps = 0;
  bool open = false;
  std::thread::id thread;  // of the open step
};

}  // namespace detail

Step::Step(std::shared_ptr<detail::SessionState> session) : session_(std::move(session)) {
  const std::lock_guard lock(session_->mutex);
  if (session_->open) {
    throw UsageError(session_->thread == std::this_thread::get_id()
                         ? "[Session::step] a step of this session is open on this thread, so another would record the "
                           "same operators twice: end it first (it ends with its scope)."
                         : "[Session::step] a step of this session is open on another thread, so its figures would "
                           "mix: end it first, or use one Session per thread.");
  }
  auto account = std::make_shared<Counters>();
  const auto verify = session_->options.verify;
  const bool verifies =
      detail::verify_everything() || verify == Verify::always || (verify == Verify::first_step && session_->steps == 0);
  const Policy policy = detail::recompute_everything() ? recompute_all() : session_->policy;
  scope_ = begin_scope({.policy = policy, .verify = verifies, .session = true, .account = account});
  session_->account = std::move(account);
  session_->open = true;
  session_->thread = std::this_thread::get_id();
  ++session_->steps;
}

Step::~Step() {
  end_scope(std::static_pointer_cast<Scope>(scope_));
  const std::lock_guard lock(session_->mutex);
  session_->open = false;
}

Session::Session(Policy policy, SessionOptions options)
    : state_(std::make_shared<detail::SessionState>(std::move(policy), options)) {}

Step Session::step() { return Step(state_); }

Stats Session::stats() const {
  const std::lock_guard lock(state_->mutex);
  Stats stats = state_->account->read();
  stats.steps = state_->steps;
  return stats;
}

const Policy& Session::policy() const { return state_->policy; }

}  // namespace retrace
