#include "session/step_budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/solve/bearable.h"

namespace retrace {
namespace {

// Once, to find the budget of a best effort.
constexpr double kBearableShare = 0.5;  // of the step
constexpr double kBearableSeconds = 0.02;

// The smallest budget at a price that a user would pay: with a little more memory, steps may be many times as fast.
int64_t bearable_bytes(const plan::Graph& graph) {
  return plan::bearable_by_eviction(graph, plan::events_in(std::max(kBearableShare * graph.seconds, kBearableSeconds)));
}

size_t ops_before_backward(const plan::Graph& graph) {
  const auto backward = graph.events.begin() + static_cast<std::ptrdiff_t>(plan::first_unpack(graph));
  const auto is_op = [](const plan::Event& event) { return event.kind == plan::EventKind::op; };
  return static_cast<size_t>(std::count_if(graph.events.begin(), backward, is_op));
}

}  // namespace

StepStart StepBudget::begin_step() {
  const StepStart before = std::exchange(start_, StepStart::now());
  forgotten_bytes_ = budget_.fraction() ? BudgetedStep::forgotten_by_ended_steps() : 0;
  begins_shared_ = BudgetedStep::open_steps() > 0;
  shares_memory_ |= begins_shared_;
  return before;
}

void StepBudget::end_step() {
  shares_memory_ |= BudgetedStep::open_steps() > 1;
  shared_plain_bytes_ = std::max(shared_plain_bytes_, BudgetedStep::shared_plain_bytes());
}

// In percent: of the peak that the plain program would have in such a step with what is live now. Of a step that is not
// known yet: of the largest. A small step that cannot do with its share, or only at a price that nobody would pay, may
// have more, as long as the largest has not.
int64_t StepBudget::bytes(const StepProfile* profile) const {
  if (budget_.bytes()) return std::max(*budget_.bytes(), smallest_bytes_);
  if (*budget_.fraction() >= 1) return kNoBudget;  // the plain program keeps it by itself
  const auto stay = std::llround(gradients_stay_.value_or(0) * static_cast<double>(start_.gradient_bytes));
  int64_t plain = other_plain_ ? other_plain_->starting_with(start_, stay) : 0, least = smallest_bytes_;
  if (profile) least = std::max(least, profile->least_bytes);
  const bool of_largest = !profile || profile->takes_largest_share;
  for (const auto& p : profiles_) {
    if (of_largest || profile == p.get()) plain = std::max(plain, p->plain.starting_with(start_, stay));
  }
  if (plain == 0) return kNoBudget;  // the first step shows what 100 % is
  plain += forgotten_bytes_;
  if (begins_shared_) plain = std::max(plain, shared_plain_bytes_);
  return std::max(static_cast<int64_t>(std::floor(*budget_.fraction() * static_cast<double>(plain))), least);
}

// The first step that begins with gradients shows whether they stay until backward. Until then they are taken to be let
// go of first; if they are still there when memory runs short, the plain program has them too.
bool StepBudget::is_in_doubt() const { return budget_.fraction() && !gradients_stay_ && start_.gradient_bytes > 0; }

// Whether the step kept its percentage of the largest step's plain peak, be that this step's: what the plain program
// would have taken in it is known by now. While steps of other threads come and go nobody can tell that; then eviction
// in all of them comes as near as it can.
bool StepBudget::is_within_percent(const BudgetedStep& step, const Timeline& timeline) const {
  if (!budget_.fraction()) return false;
  const int64_t wanted = step.most_wanted_bytes();
  if (shares_memory_ || wanted <= bytes(nullptr)) return true;
  const auto plain = static_cast<double>(plan::plain(timeline.graph()).peak_bytes + forgotten_bytes_);
  return static_cast<double>(wanted) <= *budget_.fraction() * plain;
}

void StepBudget::broken_by(const plan::Graph& graph) {
  smallest_bytes_ = std::max(smallest_bytes_, bearable_bytes(graph));
}

void StepBudget::learn_without_backward(const plan::Graph& graph, const BudgetedStep& step, const Timeline& timeline) {
  const StepPeak plain = plain_of(graph, step, timeline);
  if (!other_plain_ || other_plain_->bytes < plain.bytes) other_plain_ = plain;
}

void StepBudget::learn(StepProfile& profile, const BudgetedStep& step, const Timeline& timeline) {
  if (start_.gradient_bytes > 0) {
    gradients_stay_ =
        static_cast<double>(gradients_that_stay(*profile.graph)) / static_cast<double>(start_.gradient_bytes);
  }
  if (budget_.fraction()) learn_plain(profile, step, timeline);
}

// The simulator hears late of what the program let go of, and may see more live at once than there was. Where nothing
// was forgotten the peak is known exactly.
StepPeak StepBudget::plain_of(const plan::Graph& graph, const BudgetedStep& step, const Timeline& timeline) const {
  StepPeak plain = StepPeak::of(graph, plan::plain(graph), start_);
  const bool forgot_nothing = !step.plan() && step.kept_to_plan() && step.evictions() == 0;
  if (forgot_nothing) plain.lower_to(timeline.peak_bytes());
  return plain;
}

// A step that was only measured is the plain program. Otherwise what a step under a budget did has to be taken for it;
// then a measured step that did the same up to its first backward may know better.
void StepBudget::learn_plain(StepProfile& profile, const BudgetedStep& step, const Timeline& timeline) {
  if (profile.plain.bytes > 0 && profile.plain.start == start_) return;
  const plan::Graph& graph = *profile.graph;
  profile.plain = plain_of(graph, step, timeline);
  if (step.only_measures()) profile.measured = profile.plain;
  const size_t forward = ops_before_backward(graph);
  for (const auto& other : profiles_) {
    if (step.only_measures() || !other->measured || forward == 0) continue;
    if (!other->matches(forward - 1, (*profile.prefix_hashes)[forward - 1])) continue;
    profile.plain.raise_to(other->measured->starting_with({start_.bytes, gradients_that_stay(graph)}));
  }
}

// Of those that were live when the open step began.
int64_t StepBudget::gradients_that_stay(const plan::Graph& graph) const {
  const size_t backward = plan::first_unpack(graph);
  if (backward == graph.events.size()) return 0;
  return std::min(start_.gradient_bytes, graph.events[backward].gradient_bytes);
}

}  // namespace retrace
