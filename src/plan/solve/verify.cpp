// verify(): is a plan what it says it is?
#include <algorithm>
#include <cmath>

#include <retrace/errors.h>

#include "plan/solve/plan.h"

namespace retrace::plan {
namespace {

[[noreturn]] void wrong(const std::string& what) {
  throw InternalError("[verify] " + what +
                      ", so the plan cannot be followed. Plan again; if it happens again, please report it.");
}

// Walks the graph as written, without the simulator's help: whatever backward asks for is kept, or can be computed from
// what is kept and from roots.
class Uses {
 public:
  Uses(const Choices& choices, const Graph& graph) : choices_(choices), graph_(graph), keepable_(keepable(graph)) {}

  void check() {
    ways();
    std::vector<char> available(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v)
      available[v] = graph_.values[v].producer == kNone || choices_[v].holds();
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      const Op& op = graph_.ops[o];
      const bool can_run = std::all_of(op.args.begin(), op.args.end(),
                                       [&](const Arg& arg) { return arg.shape_only || available[at(arg.value)] != 0; });
      if (!can_run) continue;
      for_each_output(op, [&](ValueId v) {
        if (graph_.values[at(v)].producer == static_cast<OpId>(o)) available[at(v)] = 1;
      });
    }
    for (const ValueId v : graph_.handles) {
      if (available[at(v)] == 0)
        wrong("value " + std::to_string(v) + " is asked for in backward, but is neither kept nor can it be rebuilt");
    }
  }

 private:
  void ways() const {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Choice c = choices_[v];
      if (!c.holds()) continue;
      if (!keepable_[v]) wrong("value " + std::to_string(v) + " is to be kept, but cannot be");
      if (c.way() >= graph_.values[v].way_count())
        wrong("value " + std::to_string(v) + " is to be held in way " + std::to_string(c.way()) + ", which it has not");
    }
  }

  const Choices& choices_;
  const Graph& graph_;
  const std::vector<bool> keepable_;
};

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)}); }

std::string amount(const char* what, double says, double is) {
  return std::string("it promises ") + what + " " + std::to_string(says) + " and the simulator says " +
         std::to_string(is);
}

}  // namespace

void verify(const Choices& choices, const Graph& graph) { Uses(choices, graph).check(); }

void verify(const Plan& plan, const Graph& graph) {
  if (plan.signature != graph.signature || plan.choices.size() != graph.values.size()) {
    throw UsageError(
        "[verify] the plan is for another model, or for other shapes, so it cannot be followed. Plan for this one.");
  }
  verify(plan.choices, graph);
  const Outcome outcome = Simulator(graph).run(plan.choices);
  if (outcome.peak_bytes != plan.peak_bytes)
    wrong(amount("peak bytes", static_cast<double>(plan.peak_bytes), static_cast<double>(outcome.peak_bytes)));
  const auto row = [](const HeldValues& h) { return std::tuple(h.kind, h.values, h.bytes, h.plain_bytes, h.lossy); };
  if (!std::ranges::equal(plan.held, held_values(plan.choices, graph), {}, row, row))
    wrong("it holds other values, or in other ways, than it says");
  if (!same(outcome.replay_seconds, plan.replay_seconds))
    wrong(amount("seconds of rebuilding", plan.replay_seconds, outcome.replay_seconds));
  if (!same(graph.seconds + outcome.replay_seconds, plan.seconds))
    wrong(amount("seconds", plan.seconds, graph.seconds + outcome.replay_seconds));
  if (plan.peak_bytes > plan.budget_bytes)
    wrong("its peak of " + std::to_string(plan.peak_bytes) + " bytes is above the budget of " +
          std::to_string(plan.budget_bytes));
  if (!same(static_cast<double>(plan.at_peak.total()), static_cast<double>(plan.peak_bytes)))
    wrong(amount("owners of bytes at the peak", static_cast<double>(plan.at_peak.total()),
                 static_cast<double>(plan.peak_bytes)));
  if (!(plan.bound_seconds <= plan.seconds * (1 + 1e-9)))
    wrong(amount("that no plan is faster than", plan.bound_seconds, plan.seconds));
}

}  // namespace retrace::plan
