#include "tape/backward_watch.h"

#include <ATen/record_function.h>

#include <chrono>
#include <exception>

#include "tape/scope.h"
#include "tape/timeline.h"

namespace retrace {

struct WatchedBackward {
  using Clock = std::chrono::steady_clock;

  std::shared_ptr<SharedTape> tape;
  std::shared_ptr<KnownSteps> known;
  uint64_t kind;
  int32_t events_before;
  BackwardOps ops = {};
  at::CallbackHandle callback = 0;
  int exceptions = std::uncaught_exceptions();  // in flight when it began
  int running = 0;                              // operators: those inside another are part of it
  bool counts = false;                          // the outermost one does
  int32_t after = 0;                            // so many events of this backward, the outermost one began
  Clock::time_point start = {};

  void op_begins() {
    if (running++ > 0) return;
    counts = !SharedTape::Lock::is_any_held();  // else it rebuilds something
    if (!counts) return;
    {
      const SharedTape::Lock lock(*tape);
      counts = lock->timeline != nullptr;  // the step is open
      if (counts) after = lock->timeline->lasting_events() - events_before;
    }
    start = Clock::now();
  }

  void op_ends(const char* name) {
    if (--running > 0 || !counts) return;
    ops.push_back({name, std::chrono::duration<float>(Clock::now() - start).count(), after});
  }

  void note() {
    const SharedTape::Lock lock(*tape);
    if (!lock->timeline) return;
    const auto ran = std::make_shared<const BackwardOps>(std::move(ops));
    known->add_backward(kind, ran);
    lock->timeline->ran_backward(ran, events_before);
  }
};

namespace {

thread_local int depth = 0;
// Autograd hands its thread's observers on to others that help with a backward: these find nothing here.
thread_local WatchedBackward* watched_here = nullptr;

// LibTorch also tells about pieces of work that are no operators: autograd's about each of its nodes.
bool is_operator(const at::RecordFunction& work) { return work.operator_name().has_value(); }

std::unique_ptr<at::ObserverContext> op_begins(const at::RecordFunction& work) {
  if (watched_here && is_operator(work)) watched_here->op_begins();
  return nullptr;
}

void op_ends(const at::RecordFunction& work, at::ObserverContext*) {
  if (watched_here && is_operator(work)) watched_here->op_ends(work.name());
}

// Null: nobody has asked for it, or it is known.
std::unique_ptr<WatchedBackward> watched_backward(const std::shared_ptr<SharedTape>& shared) {
  const SharedTape::Lock tape(*shared);
  if (!tape->timeline || !tape->known) return nullptr;
  const uint64_t kind = tape->timeline->begin_backward();
  const int32_t events_before = tape->timeline->lasting_events();
  if (auto ops = tape->known->backward(kind)) {
    tape->timeline->ran_backward(std::move(ops), events_before);
    return nullptr;
  }
  if (!tape->known->wants_backward(kind)) return nullptr;
  return std::unique_ptr<WatchedBackward>(new WatchedBackward{shared, tape->known, kind, events_before});
}

}  // namespace

BackwardWatch::Depth::Depth() { ++depth; }
BackwardWatch::Depth::~Depth() { --depth; }

BackwardWatch::BackwardWatch() {
  // What makes a graph of its own is recorded like a forward; one inside an operator that is being rebuilt is part of
  // that.
  if (depth > 1 || thread_phase() != Phase::backward || SharedTape::Lock::is_any_held()) return;
  if (open_scopes().empty()) return;
  watched_ = watched_backward(open_scopes().front()->tape);
  if (!watched_) return;
  watched_here = watched_.get();
  watched_->callback =
      at::addThreadLocalCallback(at::RecordFunctionCallback(&op_begins, &op_ends).scopes({at::RecordScope::FUNCTION}));
}

BackwardWatch::~BackwardWatch() {
  if (!watched_) return;
  at::removeCallback(watched_->callback);
  watched_here = nullptr;
  if (std::uncaught_exceptions() > watched_->exceptions) return;  // half a backward
  try {
    watched_->note();
  } catch (...) {  // out of memory: the tape does without
  }
}

}  // namespace retrace
