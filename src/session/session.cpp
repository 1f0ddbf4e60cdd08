#include <retrace/session.h>

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <retrace/errors.h>

#include "memory/stopwatch.h"
#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "policy/rules.h"
#include "replay/replay.h"
#include "session/step_planner.h"
#include "tape/scope.h"
#include "testing/hooks.h"

namespace retrace {
namespace detail {

class SessionState {
 public:
  SessionState(Policy p, SessionOptions o)
      : policy(std::move(p)), options(o), known(std::make_shared<KnownSteps>(o.verify == Verify::first_step)) {
    if (const Budget* const budget = policy.rules().budget()) planner.emplace(*budget, o.planning);
  }

  const Policy policy;
  const SessionOptions options;
  std::mutex mutex;                                            // guards what follows
  StepCounters counters = std::make_shared<ListedCounters>();  // of the latest step
  int64_t steps = 0;
  bool open = false;
  std::thread::id thread;                  // of the open step
  bool ended_elsewhere = false;            // the step before, on another thread than its own
  std::optional<StepPlanner> planner;      // of a session under a budget
  WrittenStep written;                     // the latest complete step
  StepStart written_start;                 // of that
  int alike = 0;                           // how many steps in a row were written down and did the same
  std::shared_ptr<const NameTable> names;  // null: none
  const std::shared_ptr<KnownSteps> known;

  // Whether the next step is expected to be like the latest, with nothing left to learn from writing it down.
  bool next_follows() const {
    return alike >= kWrittenAlike && written_start == StepStart::now() &&
           (!planner || planner->is_settled(written.graph));
  }
  void learn(Timeline& timeline, std::shared_ptr<const plan::Graph> graph);

 private:
  static constexpr int kWrittenAlike = 3;
};

// `graph`: of the step that has ended, unless it followed the one before.
void SessionState::learn(Timeline& timeline, std::shared_ptr<const plan::Graph> graph) {
  if (timeline.follows()) return;
  known->learn(timeline.prefix_hashes());
  const bool same = written.graph && *written.prefix_hashes == timeline.prefix_hashes();
  alike = same ? alike + 1 : 1;
  written.graph = std::move(graph);
  if (!same) written.prefix_hashes = std::make_shared<const std::vector<uint64_t>>(timeline.prefix_hashes());
  written.description = std::make_shared<const Description>(timeline.take_description());
}

}  // namespace detail

namespace {

// What an open step adds to a scope: its timeline, and under a budget, its governor.
struct OpenStep {
  OpenStep() = default;
  ~OpenStep() {
    if (budgeted_step) budgeted_step->end();
  }
  OpenStep(const OpenStep&) = delete;
  OpenStep& operator=(const OpenStep&) = delete;

  std::shared_ptr<Timeline> timeline;
  std::shared_ptr<BudgetedStep> budgeted_step;
  memory::Stopwatch watch;
  int exceptions = std::uncaught_exceptions();  // in flight when it began
};

void require_no_open_step(detail::SessionState& session) {
  if (std::exchange(session.ended_elsewhere, false)) {
    throw UsageError(
        "[Session::step] the step before ended on another thread than it began on, so what its own thread ran in "
        "between may be missing from it or too much in it: end a step on its own thread (it ends with its scope).");
  }
  if (!session.open) return;
  throw UsageError(session.thread == std::this_thread::get_id()
                       ? "[Session::step] a step of this session is open on this thread, so another would record the "
                         "same operators twice: end it first (it ends with its scope)."
                       : "[Session::step] a step of this session is open on another thread, so its figures would "
                         "mix: end it first, or use one Session per thread.");
}

}  // namespace

Step::Step(std::shared_ptr<detail::SessionState> session) : session_(std::move(session)) {
  const std::lock_guard lock(session_->mutex);
  require_no_open_step(*session_);
  if (session_->planner && !open_scopes().empty()) {
    throw UsageError(
        "[Session::step] a checkpoint or another step is open on this thread, so a budget could not govern what it "
        "holds: make the step under the budget the outermost one.");
  }
  auto counters = std::make_shared<ListedCounters>();
  const auto verify = session_->options.verify;
  // A step inside another scope has no timeline by which it could be recognised.
  const bool verifies = detail::verify_everything() || verify == Verify::always ||
                        (verify == Verify::first_step && session_->steps == 0 && !open_scopes().empty());
  const bool overruled = detail::recompute_everything() && !session_->planner;
  auto step = std::make_shared<OpenStep>();
  if (open_scopes().empty()) {
    const bool follows = session_->next_follows();
    if (!follows) session_->written_start = StepStart::now();
    step->timeline = std::make_shared<Timeline>(session_->names, session_->written, follows);
  }
  session_->known->begin_step();
  if (session_->planner) step->budgeted_step = session_->planner->begin_step(step->timeline);
  scope_ = begin_scope({.policy = overruled ? recompute_all() : session_->policy,
                        .verify = verifies,
                        .session = true,
                        .counters = counters,
                        .timeline = step->timeline,
                        .budgeted_step = step->budgeted_step,
                        .known = session_->known},
                       &rebuild);
  step->watch = memory::Stopwatch();
  open_ = std::move(step);
  session_->counters = std::move(counters);
  session_->open = true;
  session_->thread = std::this_thread::get_id();
  ++session_->steps;
}

void Step::end() noexcept {
  const auto session = std::move(session_);
  if (!session) return;
  const auto step = std::static_pointer_cast<OpenStep>(std::move(open_));
  const auto scope = std::static_pointer_cast<Scope>(std::move(scope_));
  const double seconds = memory::seconds(step->watch.spent());
  if (step->timeline) {
    const SharedTape::Lock tape(*scope->tape);
    const double replay_seconds = session->counters->read().replay_seconds;
    step->timeline->end(*tape, std::max(seconds - replay_seconds, 0.0));
    tape->timeline.reset();
    tape->ended_step = std::exchange(tape->budgeted_step, nullptr);
    tape->known.reset();
    tape->leaves.tag_gradients();
  }
  end_scope(scope);
  const std::lock_guard lock(session->mutex);
  session->open = false;
  session->ended_elsewhere = session->thread != std::this_thread::get_id();
  // Half a step would look like a whole one that does less.
  if (!step->timeline || session->ended_elsewhere || std::uncaught_exceptions() > step->exceptions) return;
  try {
    Timeline& timeline = *step->timeline;
    std::shared_ptr<const plan::Graph> graph;
    if (step->budgeted_step) {
      const double replay_seconds = session->counters->read().replay_seconds;
      graph = session->planner->end_step(*step->budgeted_step, timeline, replay_seconds);
    } else if (!timeline.follows()) {
      graph = std::make_shared<const plan::Graph>(timeline.take_graph());
    }
    session->learn(timeline, std::move(graph));
  } catch (...) {  // out of memory: the next step begins without what this one could have taught
  }
}

Session::Session(Policy policy, SessionOptions options)
    : state_(std::make_shared<detail::SessionState>(std::move(policy), options)) {}

Session::Session(Budget budget, SessionOptions options) : Session(within_budget(budget), options) {}

detail::SessionState& Session::state() const {
  if (!state_) throw UsageError("[Session] it has been moved from, so it can do nothing: use the one it was moved to.");
  return *state_;
}

Step Session::step() {
  state();
  return Step(state_);
}

Stats Session::stats() const {
  detail::SessionState& session = state();
  const std::lock_guard lock(session.mutex);
  Stats stats = session.counters->read();
  stats.steps = session.steps;
  if (session.planner) session.planner->add_to(stats);
  return stats;
}

std::optional<PlanSummary> Session::plan() const {
  detail::SessionState& session = state();
  const std::lock_guard lock(session.mutex);
  return session.planner ? session.planner->summary() : std::nullopt;
}

void Session::save_tape(const std::string& path) const {
  detail::SessionState& session = state();
  std::shared_ptr<const plan::Graph> recorded;
  std::shared_ptr<const Description> description;
  {
    const std::lock_guard lock(session.mutex);
    recorded = session.written.graph;
    description = session.written.description;
  }
  if (!recorded) {
    throw UsageError(
        "[Session::save_tape] no step of this session has ended yet, so there is nothing to write: call it after "
        "a step.");
  }
  plan::Graph graph = *recorded;
  description->add_to(graph);
  plan::save(graph, path);
}

void Session::name(const Names& names) {
  detail::SessionState& session = state();
  const std::lock_guard lock(session.mutex);
  session.names = std::make_shared<const NameTable>(session.names.get(), names);
  session.alike = 0;  // the next step is written down with them
}

const Policy& Session::policy() const { return state().policy; }

}  // namespace retrace
