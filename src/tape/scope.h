// Who records on this thread, and under which policy.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <memory>
#include <optional>

#include <retrace/policy.h>

#include "memory/allocator.h"
#include "tape/cuts.h"
#include "tape/shared_tape.h"

namespace retrace {

// One checkpoint() or step. Nested scopes share the outermost scope's tape; the innermost scope's policy decides.
struct Scope {
  std::shared_ptr<SharedTape> tape;
  Policy policy;
  bool may_drop;
  bool verify;
  StepCounters counters;
  std::optional<CutTracker> cuts;
  bool rebuild_in_segments;
  std::shared_ptr<memory::Governor> governor;  // of the thread's allocations; of the outermost scope only
  int64_t ops = 0;
  int64_t ops_in_vain = 0;         // the latest ones, if all ran under no_grad and autograd saved nothing since
  std::atomic<bool> ended{false};  // if on another thread: its own thread notices at the next event
};

struct ScopeOptions {
  Policy policy;
  bool verify = false;
  bool session = false;             // a whole step: weights count as such, rebuilds go in segments
  StepCounters counters = nullptr;  // null: the enclosing scope's
  // Of the outermost scope only.
  std::shared_ptr<Timeline> timeline = nullptr;
  std::shared_ptr<BudgetedStep> budgeted_step = nullptr;
  std::shared_ptr<KnownSteps> known = nullptr;  // of the session
};

// Recorder and engine put themselves in place when they are loaded. No other code refers to them, and from a static
// library a linker takes only files that are referred to: begin_scope() calls these, which do nothing.
void link_recorder();
void link_engine();

// Begins a scope on this thread. `rebuild` is how its tape rebuilds what it has forgotten.
std::shared_ptr<Scope> begin_scope(const ScopeOptions& options, Tape::Rebuild rebuild);
// Ends it and whatever was left open inside it. Never throws.
void end_scope(const std::shared_ptr<Scope>& scope) noexcept;

// One of this thread's step has ended: throws InfeasibleBudget if the step needed more than its budget and no other is
// expected.
void backward_ended();

// The innermost scope that records this thread's operators now, or null.
std::shared_ptr<Scope> current_scope();
// All of this thread's scopes, outermost first, for those who must see every op. Scopes that ended on another thread
// are removed first, which locks their tape. While an operator is recorded, scopes_of_this_event() gives them as the
// event found them.
const std::vector<std::shared_ptr<Scope>>& open_scopes();
const std::vector<std::shared_ptr<Scope>>& scopes_of_this_event();

// While one lives, this thread records nothing.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

// What this thread does, as far as autograd is concerned. A backward is recorded only if it makes a graph of its own.
enum class Phase { forward, backward, recorded_backward };
Phase thread_phase();

bool backward_frees_graph();  // the running backward drops what a node saved as soon as the node has run

// The outermost backward running on this thread, or 0. Nested ones belong to it.
uint64_t current_round();
// The tape has joined the current round and must be told when it ends.
void remember_round(std::weak_ptr<SharedTape> tape);

// One Engine::execute() on this thread.
class BackwardScope {
 public:
  BackwardScope(bool keep_graph, bool create_graph);
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  Phase before_;
  bool freed_before_;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> exclude_;
};

}  // namespace retrace
