#include "tape/scope.h"

#include <algorithm>
#include <utility>

#include "libtorch/compat.h"
#include "policy/rules.h"
#include "tape/budgeted_step.h"
#include "tape/fate.h"
#include "tape/governors.h"
#include "tape/no_grad_views.h"
#include "tape/thread_object.h"
#include "tape/timeline.h"
#include "tape/writes.h"

namespace retrace {
namespace {

struct ThreadState {
  std::vector<std::shared_ptr<Scope>> scopes;
  int paused = 0;
  Phase phase = Phase::forward;
  int backward_depth = 0;
  bool backward_frees_graph = false;
  uint64_t round = 0;
  std::vector<std::weak_ptr<SharedTape>> tapes_in_round;
  std::shared_ptr<memory::Governor> late_governor;  // of a backward after its step

  ~ThreadState() {
    memory::set_governor(nullptr);
  }  // tensors may still be freed, and made, by other thread-local objects
};

ThreadState& state() { return ThreadObject<ThreadState>::get(); }  // a step or a graph may outlive the thread's own

void record_this_thread(bool on) { c10::impl::tls_set_dispatch_key_included(compat::kRecordKey, on); }

void publish_cuts(Tape& tape, Scope& scope) {
  if (!scope.rebuild_in_segments) return;
  tape.segmenting.in_segments = true;
  tape.segmenting.keeps_cuts = scope.policy.rules().cuts().keep_period > 0;
  tape.segmenting.cuts = scope.cuts->cuts(tape);
}

// The outermost scope's tape, at its beginning.
void set_up(const std::shared_ptr<SharedTape>& shared, Tape& tape, const ScopeOptions& options) {
  const bool verifies = options.known && options.known->verifies();
  tape.marking.whole = options.verify || (verifies && options.known->is_empty());
  tape.marking.verifies =
      tape.marking.whole || (verifies && options.budgeted_step && options.budgeted_step->plan_is_new());
  tape.timeline = options.timeline;
  if (options.timeline) tape.reserve(options.timeline->expected_ops(), options.timeline->expected_values());
  tape.budgeted_step = options.budgeted_step;
  tape.known = options.known;
  tape.segmenting.below_plain = options.session && options.policy.rules().may_drop() && !options.budgeted_step;
  if (options.budgeted_step) options.budgeted_step->attach(shared, tape);
}

// Any scope, at its beginning: how it uses the tape, which may be another scope's.
void join(Tape& tape, Scope& scope) {
  if (tape.budgeted_step) {  // which governs what is inside its step
    scope.cuts.reset();
    scope.rebuild_in_segments = false;
  }
  scope.may_drop = may_drop(scope.policy.rules(), tape.budgeted_step.get());
  tape.hold_if_better.policy_chooses |= scope.policy.rules().looks_at_operators();
  tape.marking.may_forget |= scope.may_drop || tape.budgeted_step;
  if (std::find(tape.counters.begin(), tape.counters.end(), scope.counters) == tape.counters.end()) {
    tape.counters.push_back(scope.counters);
  }
}

// From now on the outermost scope is asked before this thread's allocations.
void govern(Scope& scope, const std::shared_ptr<BudgetedStep>& budgeted_step) {
  scope.governor = budgeted_step;
  if (budgeted_step) {
    governor_begins(scope.governor);
  } else if (scope.may_drop) {
    const auto plain = std::make_shared<PlainGovernor>(scope.tape);
    scope.governor = plain;
    governor_begins(plain);
  }
  memory::set_governor(scope.governor.get());
}

void pop_scope(ThreadState& thread) {
  const std::shared_ptr<Scope> scope = std::move(thread.scopes.back());
  thread.scopes.pop_back();
  const SharedTape::Lock tape(*scope->tape);
  publish_cuts(*tape, *scope);
  if (!thread.scopes.empty()) return;
  record_this_thread(false);
  memory::set_governor(nullptr);
  if (scope->governor) governor_ends(*scope->governor);
  forget_no_grad_views();
  close(*tape);
}

void pop_ended_scopes(ThreadState& thread) {
  while (!thread.scopes.empty() && thread.scopes.back()->ended.load(std::memory_order_relaxed)) pop_scope(thread);
}

}  // namespace

std::shared_ptr<Scope> begin_scope(const ScopeOptions& options, Tape::Rebuild rebuild) {
  link_recorder();
  link_engine();
  ThreadState& thread = state();
  pop_ended_scopes(thread);
  const bool outermost = thread.scopes.empty();
  auto shared = outermost ? std::make_shared<SharedTape>(options.session, rebuild) : thread.scopes.back()->tape;
  auto counters = options.counters || outermost ? options.counters : thread.scopes.back()->counters;
  const CutUse use = options.policy.rules().cuts();
  const bool segments = options.session && use.rebuild_in_segments;
  std::optional<CutTracker> cuts;
  if (use.keep_period > 0 || segments) cuts.emplace(use.keep_period, counters);
  auto scope = std::shared_ptr<Scope>(
      new Scope{shared, options.policy, false, options.verify, counters, std::move(cuts), segments, nullptr});
  {
    const SharedTape::Lock tape(*shared);
    if (outermost) set_up(shared, *tape, options);
    join(*tape, *scope);
  }
  if (outermost || options.counters) count(options.counters.get(), &Counters::steps);
  if (outermost) govern(*scope, options.budgeted_step);
  thread.scopes.push_back(scope);
  record_this_thread(true);
  return scope;
}

void end_scope(const std::shared_ptr<Scope>& scope) noexcept {
  ThreadState& thread = state();
  scope->ended = true;
  // Inner scopes that outlived this one (objects destroyed out of order) end with it.
  const auto here = std::find(thread.scopes.begin(), thread.scopes.end(), scope);
  for (auto inner = here; inner != thread.scopes.end(); ++inner) (*inner)->ended = true;
  pop_ended_scopes(thread);
}

void backward_ended() {
  const ThreadState& thread = state();
  if (thread.scopes.empty() || thread.backward_depth > 0 || SharedTape::Lock::is_any_held()) return;
  std::shared_ptr<BudgetedStep> budgeted;
  bool another_is_likely = false;
  {
    const SharedTape::Lock tape(*thread.scopes.front()->tape);
    budgeted = tape->budgeted_step;
    another_is_likely = tape->handles.has_graph_to_come();
  }
  if (budgeted) budgeted->backward_ended(another_is_likely);
}

std::shared_ptr<Scope> current_scope() {
  ThreadState& thread = state();
  if (thread.paused > 0 || thread.phase == Phase::backward) return nullptr;
  pop_ended_scopes(thread);
  return thread.scopes.empty() ? nullptr : thread.scopes.back();
}

const std::vector<std::shared_ptr<Scope>>& open_scopes() {
  pop_ended_scopes(state());
  return state().scopes;
}

const std::vector<std::shared_ptr<Scope>>& scopes_of_this_event() { return state().scopes; }

Pause::Pause() : exclude_(compat::kRecordKey) { ++state().paused; }
Pause::~Pause() { --state().paused; }

Phase thread_phase() { return state().phase; }

uint64_t current_round() { return state().round; }

void remember_round(std::weak_ptr<SharedTape> tape) { state().tapes_in_round.push_back(std::move(tape)); }

bool backward_frees_graph() { return state().backward_frees_graph; }

BackwardScope::BackwardScope(bool keep_graph, bool create_graph)
    : before_(state().phase), freed_before_(std::exchange(state().backward_frees_graph, !keep_graph)) {
  static std::atomic<uint64_t> rounds{0};
  ThreadState& thread = state();
  if (thread.backward_depth++ == 0) {
    thread.round = ++rounds;
    if (thread.scopes.empty()) thread.late_governor = BudgetedStep::ended_with_graph();
    if (thread.late_governor) memory::set_governor(thread.late_governor.get());
  }
  if (!create_graph || before_ == Phase::backward) {
    thread.phase = Phase::backward;
    exclude_.emplace(compat::kRecordKey);
  } else {
    thread.phase = Phase::recorded_backward;
  }
  // One that runs inside an operator which is being rebuilt is no event of the step.
  if (!thread.scopes.empty() && before_ == Phase::forward && !SharedTape::Lock::is_any_held()) {
    std::shared_ptr<BudgetedStep> budgeted;
    {
      const SharedTape::Lock tape(*thread.scopes.front()->tape);
      budgeted = tape->budgeted_step;
      begin_event(*tape);
      look_at_saved(*tape);
      tape->measure();
      if (thread.phase == Phase::backward) collect(*tape);  // what was held in case it is needed, and is not
      look_outside(*tape);
      for (const auto& scope : thread.scopes) publish_cuts(*tape, *scope);
      if (tape->timeline) tape->timeline->backward_begins(thread.phase == Phase::recorded_backward);
    }
    if (budgeted) budgeted->begins_backward();
  }
}

BackwardScope::~BackwardScope() {
  ThreadState& thread = state();
  exclude_.reset();
  const bool recorded = std::exchange(thread.phase, before_) == Phase::recorded_backward;
  thread.backward_frees_graph = freed_before_;
  if (--thread.backward_depth > 0) return;
  if (const auto late = std::exchange(thread.late_governor, nullptr); late && thread.scopes.empty()) {
    memory::set_governor(nullptr);
  }
  if (!thread.scopes.empty() && !SharedTape::Lock::is_any_held()) {
    const SharedTape::Lock tape(*thread.scopes.front()->tape);
    if (tape->timeline) tape->timeline->backward_ended();
  }
  const auto tapes = std::exchange(thread.tapes_in_round, {});
  for (const auto& weak : tapes) {
    if (const auto tape = weak.lock()) SharedTape::Lock(*tape)->end_round(thread.round, recorded);
  }
  thread.round = 0;
}

}  // namespace retrace
