#include "session/plan_search.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "plan/graph/roots.h"

namespace retrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void lower_priority() {
  // Of this thread alone: on Linux a thread is what `setpriority` calls a process.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
}

// A thread inherits the mask of the one that makes it: the program's handlers run on the program's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// The searches that run, so that none outlives the library: a process may exit, or unload it, with sessions that nobody
// has destroyed.
class Searches {
 public:
  void add(PlanSearch& search) {
    const std::lock_guard lock(mutex_);
    running_.insert(&search);
  }
  void remove(PlanSearch& search) {
    const std::lock_guard lock(mutex_);
    running_.erase(&search);
  }
  ~Searches() {
    for (PlanSearch* const search : std::exchange(running_, {})) search->stop();
  }

 private:
  std::mutex mutex_;
  std::set<PlanSearch*> running_;
};

namespace {

Searches* searches = nullptr;

// Null while the process exits.
Searches* all_searches() {
  static struct Instance {
    Instance() {
      plan::strategies();  // made before, so destroyed after
      searches = new Searches;
    }
    ~Instance() { delete std::exchange(searches, nullptr); }
  } const instance;
  return searches;
}

// Effort per event of a graph, to make the networks, lifetimes and trees that a search needs. Measured, roughly.
constexpr int64_t kSetUpEffort = 6;
constexpr int64_t kMostSetUp = 2;  // times what the search itself may do

// First with the roots that pay for being held, which make more values replayable. Then without roots that autograd did
// not save: no such plan needs more than the plain program.
template <class Solve>
std::optional<FoundPlan> with_roots_that_pay(const plan::Graph& graph, Solve solve) {
  for (auto roots : {&plan::idle_roots, &plan::unsaved_roots}) {
    std::vector<char> unheld = roots(graph);
    if (auto plan = solve(plan::without(graph, unheld), unheld)) return FoundPlan{std::move(*plan), std::move(unheld)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<FoundPlan> find_plan(const plan::Graph& graph, int64_t budget_bytes) {
  return with_roots_that_pay(graph, [&](const plan::Graph& g, auto&) { return plan::solve(g, budget_bytes).plan; });
}

// In a step of very many and very short operators the search would take longer to set up than it may take in all.
std::optional<FoundPlan> find_quick_plan(const plan::Graph& graph, int64_t budget_bytes, double seconds) {
  const int64_t most_effort = plan::events_in(seconds / 2);
  if (kSetUpEffort * static_cast<int64_t>(graph.events.size()) > kMostSetUp * most_effort) return std::nullopt;
  return with_roots_that_pay(
      graph, [&](const plan::Graph& g, auto&) { return plan::quick_solve(g, budget_bytes, most_effort); });
}

PlanSearch::PlanSearch(std::shared_ptr<const plan::Graph> graph, const Planned* known, int64_t budget_bytes,
                       double most_seconds)
    : process_(::getpid()) {
  work_->graph = std::move(graph);
  if (known) work_->known = *known;
  work_->budget_bytes = budget_bytes;
  work_->most_seconds = most_seconds;
  Searches* const all = all_searches();
  work_->done = all == nullptr;
  if (!all) return;
  all->add(*this);
  const SignalsBlocked blocked;
  try {
    thread_ = std::make_unique<std::thread>([work = work_] { run(*work); });
  } catch (const std::system_error&) {  // no more threads: done, with nothing found
    work_->done = true;
  }
}

PlanSearch::~PlanSearch() {
  stop();
  if (searches) searches->remove(*this);
}

void PlanSearch::stop() {
  std::unique_ptr<std::thread> thread = std::move(thread_);
  if (!thread) return;
  work_->stop.request_stop();
  if (process_ == ::getpid()) return thread->join();
  static_cast<void>(thread.release());  // the child of a fork, where the thread is not
}

void PlanSearch::run(Work& work) {
  lower_priority();
  const auto begin = Clock::now();
  try {
    plan::SolveOptions options;
    options.stop = work.stop.get_token();
    options.most_effort = plan::events_in(work.most_seconds);
    work.result.found = with_roots_that_pay(*work.graph, [&](const plan::Graph& graph, const auto& unheld) {
      const bool comparable = work.known.plan && *work.known.unheld_roots == unheld;
      options.known = comparable ? work.known.plan->choices : plan::Choices();
      // The search looks for plans within budgets of whole percents: a quick plan for this very budget can be faster.
      if (!comparable) {
        if (auto quick = plan::quick_solve(graph, work.budget_bytes, options.most_effort / 2, options.stop))
          options.known = std::move(quick->choices);
      }
      plan::Answer answer = plan::solve(graph, work.budget_bytes, options);
      work.result.complete = !answer.stopped && answer.effort < options.most_effort;
      return std::move(answer.plan);
    });
  } catch (...) {  // out of memory: training goes on with the plan it has
  }
  work.result.seconds = seconds_since(begin);
  work.done.store(true, std::memory_order_release);
}

PlanSearch::Result PlanSearch::take() {
  if (thread_) thread_->join();
  thread_.reset();
  return std::move(work_->result);
}

}  // namespace retrace
