// Looking for a plan: at once, or on a thread of its own while training goes on.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "session/step_profile.h"

namespace retrace {

// A plan by the full search, or what is found within about so many seconds. None if no plan fits.
std::optional<FoundPlan> find_plan(const plan::Graph& graph, int64_t budget_bytes);
std::optional<FoundPlan> find_quick_plan(const plan::Graph& graph, int64_t budget_bytes, double seconds);

// One full search. It owns all that it touches, runs at the lowest priority, and takes no signals. Destroying it waits
// until the search has noticed, which takes some milliseconds; so does the end of the process. In the child of a fork
// it is never done.
class PlanSearch {
 public:
  struct Result {
    std::optional<FoundPlan> found;
    double seconds = 0;
    bool complete = false;  // it ended by itself, not because its time was up
  };

  // Takes at most about `most_seconds` of work. `known` is the plan to beat, or null.
  PlanSearch(std::shared_ptr<const plan::Graph> graph, const Planned* known, int64_t budget_bytes, double most_seconds);
  ~PlanSearch();
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  bool is_done() const { return work_->done.load(std::memory_order_acquire); }
  Result take();  // once, when it is done

 private:
  struct Work {
    std::shared_ptr<const plan::Graph> graph;
    Planned known;
    int64_t budget_bytes = 0;
    double most_seconds = 0;
    Result result;
    std::stop_source stop;
    std::atomic<bool> done{false};
  };
  friend class Searches;

  void stop();
  static void run(Work& work);

  const std::shared_ptr<Work> work_ = std::make_shared<Work>();
  const int process_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace retrace
