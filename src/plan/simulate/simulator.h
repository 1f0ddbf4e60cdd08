// The simulator: one step under a set of choices, by the runtime's own rules. It is the judge of every plan.
#pragma once

#include <memory>

#include "plan/graph/graph.h"
#include "plan/simulate/effort.h"

namespace retrace::plan {

struct Owners {
  int64_t weights = 0, gradients = 0, kept = 0, rebuilt = 0, other = 0;
  int64_t total() const { return weights + gradients + kept + rebuilt + other; }
};

struct History;  // history.h

struct Outcome {
  int64_t peak_bytes = 0;
  size_t peak_event = 0;  // position in graph.events
  Owners at_peak;
  double replay_seconds = 0;  // storing and loading included
  int64_t ops_replayed = 0;
  int64_t kept_bytes = 0;            // the most that was held for backward at once
  std::vector<int64_t> event_peaks;  // per event, the most that was live during it; only if asked for
  double excess = 0;                 // bytes above a budget, if a price was given
  bool gave_up = false;              // it stopped early: the rest is what was known by then
};

// What a step costs, to a search for plans: seconds, and bytes above a budget at a price. The largest excess alone
// would not tell whether one of two equal peaks is gone; the mean alone would not push down the last peak.
struct Price {
  int64_t budget_bytes = INT64_MAX;
  double per_byte = 0;  // seconds
  double spread = 0;    // how much the mean excess of all events weighs beside the largest

  double excess(int64_t peak_bytes, double sum_of_excesses, size_t events) const;
};

// Runs through the graph many times without allocating anew. Not thread-safe: each thread needs one of its own.
class Simulator {
 public:
  // Both must outlive it. What it does is counted as effort, and it gives up when the effort is to stop.
  explicit Simulator(const Graph& graph, Effort* effort = nullptr);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // `choices` has one entry per value; those that cannot be followed count as possible() says. Stops early once the
  // peak is above `give_up_bytes` or the replay takes more than `give_up_seconds`; the outcome is then above that, too.
  Outcome run(const Choices& choices, bool event_peaks = false, int64_t give_up_bytes = INT64_MAX,
              double give_up_seconds = 1e300);

  // The same to the end, with the peaks of all events, and `history` filled event by event.
  Outcome run(const Choices& choices, History& history);

  // The same, faster if the choices differ in little from those of the last rebase(). Of the outcome these are filled:
  // peaks, per event too, seconds and operators of replay, excess. run_incremental() stops early once the replay takes
  // more than `give_up_seconds`, or costs more together with the bytes above the budget at their price; rebase() only
  // looks at the replay. Choices that differ in much become the new base by themselves.
  Outcome run_incremental(const Choices& choices, double give_up_seconds = 1e300, const Price& price = {});
  Outcome rebase(const Choices& choices, double give_up_seconds = 1e300, const Price& price = {});

  void forget_base();  // so that what a run takes does not depend on what ran before

  // Which values of the tape are live at the highest point of an event, for a search that wants to change something.
  struct Live {
    ValueId value;
    bool rebuilt;  // else held, or still in the program's hands, since forward
  };
  std::vector<Live> live_at(const Choices& choices, size_t event);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What the program does without Retrace: everything that autograd saved is kept, and nothing else. Budgets in percent
// are of its peak. With the peaks of all events; `history`, if given, is filled event by event.
Outcome plain(const Graph& graph, History* history = nullptr);

}  // namespace retrace::plan
