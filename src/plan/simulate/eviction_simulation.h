// A step without a plan: it keeps what autograd saves until memory runs short, and then lets go of whatever takes the least
// seconds per byte. The rules are those of src/tape/evict.cpp, over a graph.
#pragma once

#include <optional>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/simulate/effort.h"
#include "plan/simulate/step_simulation.h"

namespace retrace::plan {

// What counts beside seconds and bytes. As the runtime has it, unless somebody looks for what suits a step better.
struct EvictionWeights {
  double since_use = 0.5;           // power of the time since its last use, in forward
  double until_use = 0.25;          // power of the time until it is wanted, in backward: of what is held since forward
  double until_use_if_rebuilt = 1;  // and of what was rebuilt
  double shared = 0.25;             // share of an operator's seconds if it is to run again anyway, for something else
};

class EvictionSimulation final : public MakesSpace {
 public:
  explicit EvictionSimulation(const Graph& graph, Effort* effort = nullptr);  // both must outlive it

  struct Result {
    Outcome outcome;
    Choices choices;  // as they were in the end: what was let go of is rebuilt, or held in another way
    std::vector<char> forgotten_again;  // by value: it had been rebuilt when it was let go of
  };
  // Gives up when rebuilding takes longer than `give_up_seconds`.
  Result run(Choices start, int64_t budget_bytes, double give_up_seconds = 1e300, const EvictionWeights& weights = {});

  bool let_go_of_one() override;

 private:
  struct Candidate {
    ValueId value = kNone;
    double score = 0;  // seconds per byte and time it would be away
    int way = kNone;   // to hold it in; none: it is forgotten
  };

  void read_events();
  bool in_backward() const;
  const SimValue& value(ValueId id) const { return step_.now().values[at(id)]; }
  bool is_at_hand(ValueId id) const;
  bool will_be_at_hand(ValueId id) const;
  double replay_seconds(OpId op, ValueId wanted) const;
  std::optional<double> seconds_to_rebuild(ValueId id);
  std::optional<double> seconds_to_rebuild(ValueId id, bool later);
  int64_t evictable_bytes(ValueId id) const;
  double time_away(ValueId id) const;
  OpId backward_at() const;
  OpId next_use(ValueId id, OpId here) const;
  std::optional<Candidate> priced(ValueId id);
  std::optional<Candidate> best_ranked();
  void rank();
  void let_go(const Candidate& candidate);

  const Graph& graph_;
  Effort* const effort_;
  StepSimulation step_;
  EvictionWeights weights_;
  Choices choices_;
  std::vector<char> forgotten_again_;
  std::vector<std::vector<OpId>> readers_;  // by value, in order
  std::vector<size_t> made_, happened_;     // by value and by op: an event
  std::vector<size_t> last_drop_;           // by value: the event after which no saved tensor stands for it
  std::vector<OpId> saved_at_;              // by handle: the operator that comes next
  std::vector<Candidate> ranking_;          // the best is last
  double ranked_score_ = 0;                 // of the best, then
  size_t ranked_at_ = 0;                    // an event
  std::vector<uint32_t> priced_;            // by op: the last time somebody asked what rebuilding takes
  uint32_t pricing_ = 0;
  std::vector<ValueId> work_;
};

}  // namespace retrace::plan
