// A step without a plan: it keeps what autograd saves until memory runs short, and then lets go of whatever takes the
// fewest seconds per byte.
#pragma once

#include <vector>

#include "plan/graph/graph.h"
#include "plan/simulate/effort.h"
#include "plan/simulate/eviction_rules.h"
#include "plan/simulate/step_simulation.h"

namespace retrace::plan {

class EvictionSimulation final : public MakesSpace {
 public:
  explicit EvictionSimulation(const Graph& graph, Effort* effort = nullptr);  // both must outlive it

  struct Result {
    Outcome outcome;
    Choices choices;  // as they were in the end: what was let go of is rebuilt, or held in another way
    std::vector<char> forgotten_again;  // by value: it was let go of after it had been rebuilt
  };
  // Gives up when rebuilding takes longer than `give_up_seconds`.
  Result run(Choices start, int64_t budget_bytes, double give_up_seconds = 1e300,
             const eviction::Weights& weights = {});

  bool let_go_of_one() override;

 private:
  struct Candidate {
    ValueId value = kNone;
    double score = 0;  // seconds per byte and time it would be away
    int way = kNone;   // to hold it in; none: it is forgotten
  };

  struct Evicting;

  void read_events();
  void let_go(const Candidate& candidate);

  const Graph& graph_;
  Effort* const effort_;
  StepSimulation step_;
  eviction::Weights weights_;
  Choices choices_;
  std::vector<char> forgotten_again_;
  std::vector<std::vector<OpId>> readers_;  // by value, in order
  std::vector<size_t> made_, happened_;     // by value and by op: an event
  std::vector<size_t> last_drop_;           // by value: the event after which no saved tensor stands for it
  eviction::Ranking<Candidate> ranking_;
  std::vector<uint32_t> priced_;  // by op: the last time somebody asked what rebuilding takes
  uint32_t pricing_ = 0;
  std::vector<ValueId> work_;
};

}  // namespace retrace::plan
