// A plan: what becomes of every value of a step so that its peak stays within a budget, at the least extra time found,
// with a proof of how much less any plan could take.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <retrace/plan.h>

#include "plan/graph/graph.h"
#include "plan/simulate/effort.h"
#include "plan/simulate/simulator.h"

namespace retrace::plan {

struct Plan {
  Choices choices;         // by value
  uint64_t signature = 0;  // of the graph it is for
  int64_t budget_bytes = 0;
  std::string strategy;          // the one that found it
  std::vector<HeldValues> held;  // what the choices hold, way by way, "as it is" first

  int64_t peak_bytes = 0;     // predicted, with its owners
  Owners at_peak;             // likewise
  double seconds = 0;         // predicted, of the whole step
  double replay_seconds = 0;  // of those, rebuilding, storing and loading
  double bound_seconds = 0;   // no plan of these options within the budget takes less than this for the whole step
  double planning_seconds = 0;

  int64_t lossy_values() const;  // held with loss, as the user allowed
  double gap() const { return seconds > 0 ? (seconds - bound_seconds) / seconds : 0; }
};

struct StrategyUse {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
};

// Either a plan, or the smallest budget that has one and what fills it. Infeasible is an answer, not an error.
struct Answer {
  std::optional<Plan> plan;
  int64_t smallest_bytes = 0;  // filled if there is no plan
  Owners smallest_at_peak;
  std::vector<StrategyUse> strategies;  // that were used
  int64_t effort = 0;                   // events simulated, or as much other work
  bool stopped = false;                 // by SolveOptions::stop: the plan is the best until then; none proves nothing
};

inline constexpr const char* kBest = "best";  // the strategy that uses several others

struct SolveOptions {
  std::string strategy = kBest;           // or one alone
  std::vector<std::string> without = {};  // strategies that "best" is to do without
  bool verify_strategies = false;         // simulate once more whatever a strategy finds: for tests
  Choices known = {};                     // the plan to beat: solve() returns it if nothing faster is found
  std::stop_token stop = {};              // ends the search soon, at the best plan found so far
  int64_t most_effort = kUnlimited;       // in events, see effort.h: ends the search likewise
};

// Names `strategy` may have, "best" first.
const std::vector<std::string>& strategies();

// `budget_bytes` is for everything that is live, start_bytes included. Throws UsageError if no strategy has that name.
// "best" searches until what it could still gain, the seconds between its plan and the bound, would no longer pay for
// the search within some hundred steps. Shares nothing with other calls: any thread may call it, any number at once.
Answer solve(const Graph& graph, int64_t budget_bytes, const SolveOptions& options = {});

// A plan in a few simulations, often close to what solve() finds in a hundred times the time: 2 to 20 ms for graphs of
// 600 to 2,000 operators. None if nothing that fits was found within `most_effort` events, or `stop` was requested. Its
// bound is as good as the effort allowed.
std::optional<Plan> quick_solve(const Graph& graph, int64_t budget_bytes, int64_t most_effort = kUnlimited,
                                const std::stop_token& stop = {});

// The smallest budget that holds from the very first step on, before any plan exists: nothing is held that is not being
// used at the moment. Never above the plain peak. With the peaks of all events.
Outcome smallest(const Graph& graph);

// What a step without a plan does: it keeps what autograd saves, and lets go of what is cheapest to be without when
// memory runs short. Its peak is above the budget if that is not enough.
Outcome by_eviction(const Graph& graph, int64_t budget_bytes, Effort* effort = nullptr);

// What choices hold, way by way.
std::vector<HeldValues> held_values(const Choices& choices, const Graph& graph);

PlanSummary summarize(const Plan& plan, const Graph& graph);

// Throws InternalError unless whatever backward asks for is held in a way it has, or can be rebuilt.
void verify(const Choices& choices, const Graph& graph);

// Throws InternalError naming the first thing wrong: a use without a producer that is live or can be rebuilt, a peak or
// seconds that the simulator does not confirm, a peak above the budget; UsageError if the plan is for another graph.
void verify(const Plan& plan, const Graph& graph);

}  // namespace retrace::plan
