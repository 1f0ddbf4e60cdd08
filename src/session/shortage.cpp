#include "session/shortage.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace retrace {
namespace {

// Numbers in the code become tensors for a moment, and that may be a step's fullest moment. So the smallest budget has
// space for a few of them.
constexpr int64_t kNumberBytes = 64;

std::string described(const InfeasibleBudget::Needs& needs) {
  return "weights " + std::to_string(needs.weight_bytes) + ", gradients " + std::to_string(needs.gradient_bytes) +
         ", what else was live before the step (optimizer state, data) " + std::to_string(needs.before_bytes) +
         ", the step itself " + std::to_string(needs.step_bytes);
}

// Whether a backward asked for something that another one had asked for before.
bool is_retained(const plan::Graph& graph) {
  std::vector<const plan::Backward*> asked(graph.handles.size());
  for (size_t e = 0; e < graph.events.size(); ++e) {
    if (graph.events[e].kind != plan::EventKind::unpack) continue;
    const plan::Backward* const now = plan::backward_at(graph, static_cast<int32_t>(e));
    const plan::Backward* const before = std::exchange(asked[plan::at(graph.events[e].id)], now);
    if (before && before != now) return true;
  }
  return false;
}

}  // namespace

Shortage::Shortage(const Timeline& timeline, const BudgetedStep& step, const StepStart& start, std::string not_counted)
    : budget_bytes_(step.given_bytes()), not_counted_(std::move(not_counted)) {
  const plan::Graph graph = timeline.graph();
  const plan::Outcome plain = plan::plain(graph);
  // Several backwards are taken for one: eviction may not come near to what a plan for several could do.
  plan::Graph as_one = graph;
  as_one.backwards.clear();
  plan::Outcome smallest = plan::smallest(as_one);
  int64_t named = std::min(smallest.peak_bytes + kNumberBytes, plain.peak_bytes);
  // If that is within the budget, other threads had the rest, or the step could not do what the simulator says: then
  // what it needed in fact. It is no more than what it needed in fact if nothing was let go of, since that is the plain
  // peak; or if a graph was used by several backwards or made by one, since something then lives for longer in the
  // simulation than it did.
  const bool saw_better =
      step.evictions() == 0 || is_retained(graph) ||
      std::any_of(graph.backwards.begin(), graph.backwards.end(), [](const plan::Backward& b) { return b.records; });
  const int64_t needed = step.most_wanted_bytes();
  if (named <= step.given_bytes()) named = needed;
  if (saw_better) named = std::min(named, needed);
  // Where the plain program fits, nothing is forgotten and no more is held than it has.
  if (plain.peak_bytes > step.given_bytes()) named = std::min(named, plain.peak_bytes);
  smallest_ = StepPeak::of(graph, smallest, start);
  smallest_.lower_to(named);
  smallest_.raise_to(named);
  smallest.at_peak.other += named - smallest.peak_bytes;
  smallest.peak_bytes = named;
  plain_ = StepPeak::of(graph, plain, start);
  needs_.weight_bytes = smallest.at_peak.weights;
  needs_.gradient_bytes = smallest.at_peak.gradients;
  const int64_t rest = std::max<int64_t>(smallest.peak_bytes - needs_.weight_bytes - needs_.gradient_bytes, 0);
  needs_.before_bytes = std::clamp<int64_t>(start.bytes - needs_.weight_bytes, 0, rest);
  needs_.step_bytes = rest - needs_.before_bytes;
}

int64_t Shortage::smallest_bytes(const StepStart& start) const {
  // Of what is live now, what was not when it ended is the next step's own: its data, as a rule.
  const StepStart left{std::min(start.bytes, end_.bytes), std::min(start.gradient_bytes, end_.gradient_bytes)};
  if (left == smallest_.start) return smallest_.bytes;
  const int64_t then =
      std::min(smallest_.starting_with(left) + kNumberBytes, std::max(plain_.starting_with(left), smallest_.bytes));
  return std::max(then, smallest_.bytes);  // less is live now, but not when such a step began
}

void Shortage::refuse(int64_t smallest_bytes) const {
  InfeasibleBudget::Needs needs = needs_;
  needs.before_bytes += smallest_bytes - smallest_.bytes;  // what the step before made for good
  const std::string bytes = std::to_string(smallest_bytes);
  throw InfeasibleBudget("[budget] a step needs at least " + bytes + " bytes and its budget is " +
                             std::to_string(budget_bytes_) +
                             ", so it cannot be kept. At the fullest moment of such a step: " + described(needs) + "." +
                             not_counted_ + " Give at least retrace::budget(" + bytes +
                             "), or retrace::budget(...).best_effort() to run with the smallest.",
                         smallest_bytes, needs);
}

}  // namespace retrace
