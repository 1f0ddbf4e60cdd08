// From any choices to a plan that fits, and from a plan that fits to a faster one. The simulator judges every move.
// Moves are made in batches, so that their number does not grow with the graph. Each function returns what it has when
// the effort is spent.
#pragma once

#include <utility>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"
#include "plan/simulate/effort.h"
#include "plan/simulate/simulator.h"
#include "plan/solve/candidate.h"
#include "plan/solve/headroom_tree.h"
#include "plan/solve/replay_estimate.h"

namespace retrace::plan {

// The peak of a candidate that was given up on.
inline constexpr int64_t kGaveUp = INT64_MAX / 8;

class Search {
 public:
  enum class Runs { whole, incremental };  // incremental runs pay if there are a dozen or more

  Search(const Graph& graph, const Lifetimes& lifetimes, Effort& effort, Runs runs = Runs::incremental);

  // From now on every candidate that is simulated to its end with a peak of at most `most_bytes` is offered to a front,
  // since it may suit another budget.
  void collect(int64_t most_bytes) { collected_bytes_ = most_bytes; }
  const Front& front() const { return front_; }
  Front take_front() { return std::exchange(front_, {}); }

  Candidate simulate(Choices choices);
  void forget_base() { simulator_.forget_base(); }

  // Choices as they are, with peaks per event: see Simulator.
  Outcome run_incremental(const Choices& choices, double give_up_seconds, const Price& price);
  Outcome rebase(const Choices& choices, const Price& price);
  std::vector<Simulator::Live> live_at(const Choices& choices, size_t event) {
    return simulator_.live_at(choices, event);
  }

  // Whether a value is kept in any case.
  bool fixed(ValueId v) const { return fixed_[at(v)] != 0; }

  // Drops what costs least until the peak is within the budget, then makes replays smaller if that was not enough. The
  // result may not fit: look at its peak.
  Candidate repair(Candidate start, int64_t budget_bytes);

  // Keeps what saves most for its bytes while there are bytes.
  Candidate fill(Candidate start, int64_t budget_bytes, int rounds = 10);

  // Tries to hold again what repair() gave up too early: values that are rebuilt each time although there are bytes to
  // hold them.
  Candidate relax(Candidate start, int64_t budget_bytes);

  // Changes one value, or all values that are alike, repairs and fills around that, and keeps what turns out better. Up
  // to `runs` simulator runs.
  Candidate improve(Candidate start, int64_t budget_bytes, int64_t runs);

  int64_t runs() const { return runs_; }

 private:
  struct Move {
    ValueId value = kNone;
    Choice to;
    double seconds = 0;  // gained or lost
    double score = 0;
  };

  Outcome run(const Choices& choices, bool event_peaks);
  // The same where only a plan at least as fast as that one is of use.
  Outcome run_to_beat(const Choices& choices, const Candidate& best, int64_t budget_bytes);
  Outcome record(const Choices& choices, Outcome outcome);
  Candidate candidate(const Choices& choices, const Outcome& outcome) const;
  void prune(Choices& choices);
  void find_small();
  void keep_small(Choices& choices) const;
  double cost(ValueId v, Choice choice) const;
  int64_t bytes(ValueId v, Choice choice) const;
  void occupy(ValueId v, Choice choice, int64_t sign);
  bool overlaps_shortage(ValueId v, Choice choice) const;
  bool fits(ValueId v, Choice from, Choice to);
  void apply(Choices& choices, ValueId v, Choice to);

  struct Change {
    std::vector<ValueId> values;
    Choice to;
  };
  std::vector<Change> changes(const Choices& choices, bool alike_together);
  bool try_change(const Change& change, Candidate& best, int64_t budget_bytes);
  bool improves(const Outcome& outcome, const Candidate& best, int64_t budget_bytes) const;

  Move cheapest_drop(ValueId v, const Choices& choices);
  bool drop_round(Choices& choices, int64_t budget_bytes, const Outcome& outcome);
  bool shrink_replay(Candidate& current, int64_t budget_bytes, const Outcome& outcome);
  Move best_move(ValueId v, const Choices& choices);
  std::vector<Move> choose_batch(Choices& choices, const std::vector<char>& refused);
  std::vector<ValueId> alike(ValueId v, const Choices& choices, Choice unlike) const;

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  Effort& effort_;
  const bool whole_runs_;
  Simulator simulator_;
  ReplayEstimate estimate_;
  HeadroomTree headroom_;
  std::vector<int32_t> kind_;                // by value: values that are made alike have the same number
  std::vector<std::vector<ValueId>> kinds_;  // by that number: the values
  std::vector<ValueId> small_;               // values that are kept in any case: see find_small()
  std::vector<int32_t> readers_;             // by value: operators that look at it
  std::vector<char> fixed_;                  // by value: not to be touched now
  Front front_;
  int64_t collected_bytes_ = -1;
  double too_slow_ = 0;  // seconds of replay: simulating such a plan to its end would take as long as it does
  int64_t runs_ = 0;
};

}  // namespace retrace::plan
