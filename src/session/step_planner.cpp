#include "session/step_planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <retrace/errors.h>

#include "memory/allocator.h"
#include "plan/graph/roots.h"

namespace retrace {
namespace {

// A program whose shapes never repeat must not make us remember all of them.
constexpr size_t kMostKnown = 32;

constexpr size_t kStepsTimed = 9;  // a machine's speed changes: older times tell nothing about the next step

constexpr double kWorthEvicting = 0.01;  // of the step: a plan is followed exactly, eviction is another every time

// Numbers in the code become tensors for a moment. A step that lets go of values in another order may do so at its fullest
// moment, so the smallest budget has room for a few of them.
constexpr int64_t kNumberBytes = 64;

constexpr const char* kOnline = "online";  // no plan: values go when memory runs short

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

std::string described(const InfeasibleBudget::Needs& needs) {
  return "weights " + std::to_string(needs.weight_bytes) + ", gradients " + std::to_string(needs.gradient_bytes) +
         ", what else was live before the step (optimizer state, data) " + std::to_string(needs.before_bytes) +
         ", the step itself " + std::to_string(needs.step_bytes);
}

size_t ops_before_backward(const plan::Graph& graph) {
  size_t ops = 0;
  for (const plan::Event& event : graph.events) {
    if (event.kind == plan::EventKind::unpack) break;
    ops += event.kind == plan::EventKind::op;
  }
  return ops;
}

// How each value is held that a plan does not hold as it is.
std::shared_ptr<const store::Kinds> kinds_of(const plan::Plan& plan, const plan::Graph& graph) {
  auto kinds = std::make_shared<store::Kinds>(graph.values.size());
  for (size_t v = 0; v < std::min(kinds->size(), plan.choices.size()); ++v) {
    const plan::Choice choice = plan.choices[v];
    if (!choice.holds() || choice.way() == plan::kAsItIs) continue;
    (*kinds)[v] = store::find_kind(graph.values[v].ways.at(static_cast<size_t>(choice.way() - 1)).kind);
  }
  return kinds;
}

}  // namespace

// In percent: of the peak that the plain program would have in such a step with what is live now. Of a step that is not
// known yet: of the largest.
int64_t StepPlanner::budget_bytes(const StepProfile* known) const {
  if (budget_.bytes()) return std::max(*budget_.bytes(), smallest_bytes_);
  if (*budget_.fraction() >= 1) return kNoBudget;  // the plain program keeps it by itself
  int64_t plain = other_plain_ ? other_plain_->starting_with(start_) : 0;
  for (const StepProfile& k : known_) {
    if (!known || known == &k) plain = std::max(plain, k.plain.starting_with(start_));
  }
  if (plain == 0) return kNoBudget;  // the first step shows what 100 % is
  return std::max(static_cast<int64_t>(std::floor(*budget_.fraction() * static_cast<double>(plain))), smallest_bytes_);
}

std::shared_ptr<BudgetedStep> StepPlanner::begin_step(const std::shared_ptr<Timeline>& timeline) {
  const std::lock_guard lock(mutex_);
  start_ = StepStart::now();
  if (const auto refusal = std::exchange(refusal_, std::nullopt)) refuse(*refusal, refusal->smallest_bytes(start_));
  ++steps_;
  return std::make_shared<BudgetedStep>(
      store::kinds(budget_.allows_bfloat16()), known_.empty() ? no_match() : match_for(known_[latest_]),
      [this](size_t index, uint64_t hash) { return find_match(index, hash); },
      [this, weak = std::weak_ptr(timeline)](const BudgetedStep& step) {
        const auto open = weak.lock();
        if (!open || budget_.is_best_effort()) return;
        const Shortage shortage = shortage_of(open->graph(), step);
        refuse(shortage, shortage.smallest.bytes);
      });
}

StepPlanner::Shortage StepPlanner::shortage_of(const plan::Graph& graph, const BudgetedStep& step) const {
  plan::Outcome smallest = plan::smallest(graph);
  const plan::Outcome plain = plan::plain(graph);
  smallest.peak_bytes = std::min(smallest.peak_bytes + kNumberBytes, std::max(plain.peak_bytes, smallest.peak_bytes));
  // Other threads had the rest, or the step could not do what the simulator says: then what it needed in fact.
  if (smallest.peak_bytes <= step.given_bytes()) {
    smallest.at_peak.other += step.most_wanted_bytes() - smallest.peak_bytes;
    smallest.peak_bytes = step.most_wanted_bytes();
  }
  Shortage shortage{peak_of(graph, smallest), peak_of(graph, plain), step.given_bytes(), {}, steps_ == 1};
  InfeasibleBudget::Needs& needs = shortage.needs;
  needs.weight_bytes = smallest.at_peak.weights;
  needs.gradient_bytes = smallest.at_peak.gradients;
  const int64_t rest = std::max<int64_t>(smallest.peak_bytes - needs.weight_bytes - needs.gradient_bytes, 0);
  needs.before_bytes = std::clamp<int64_t>(start_.bytes - needs.weight_bytes, 0, rest);
  needs.step_bytes = rest - needs.before_bytes;
  return shortage;
}

int64_t StepPlanner::Shortage::smallest_bytes(const StepStart& start) const {
  return std::min(smallest.starting_with(start) + kNumberBytes, std::max(plain.starting_with(start), smallest.bytes));
}

void StepPlanner::refuse(const Shortage& shortage, int64_t smallest_bytes) {
  InfeasibleBudget::Needs needs = shortage.needs;
  needs.before_bytes += smallest_bytes - shortage.smallest.bytes;  // what the step before made for good
  const std::string bytes = std::to_string(smallest_bytes);
  throw InfeasibleBudget(
      "[budget] a step needs at least " + bytes + " bytes and its budget is " + std::to_string(shortage.budget_bytes) +
          ", so it cannot be kept. At the fullest moment of such a step: " + described(needs) + "." +
          (shortage.first_step ? " State that an optimizer has not made yet may come on top, and is not in it." : "") +
          " Give at least retrace::budget(" + bytes +
          "), or retrace::budget(...).best_effort() to run with the smallest.",
      smallest_bytes, needs);
}

// Close to the smallest budget the only plan may be to rebuild everything every time. Eviction has done better then, and is
// expected to do as well again, beside whatever else is live by now.
void StepPlanner::prefer_eviction(const StepProfile& known, plan::Plan& plan) const {
  if (known.eviction && known.eviction->replay_seconds + kWorthEvicting * known.graph.seconds < plan.replay_seconds)
    expect_eviction(known, plan);
}

void StepPlanner::expect_eviction(const StepProfile& known, plan::Plan& plan) const {
  const double bound = plan.bound_seconds - (plan.seconds - plan.replay_seconds);
  plan.strategy = kOnline;
  plan.peak_bytes =
      std::min(budget_bytes(&known), known.eviction->peak_bytes + start_.bytes - known.eviction->start_bytes);
  plan.replay_seconds = known.eviction->replay_seconds;
  plan.seconds = known.graph.seconds + plan.replay_seconds;
  plan.bound_seconds = known.graph.seconds + std::min(bound, plan.replay_seconds);
}

// Where the planner knows none and eviction has kept the budget all the same: one that is always slower than that. None at
// all, as far as a step that began with other things live can tell (gradients that stay from step to step, say): the next
// step itself will show what it needs.
std::optional<plan::Plan> StepPlanner::make_plan(StepProfile& known, int64_t budget_bytes) {
  const auto began = std::chrono::steady_clock::now();
  std::optional<plan::Plan> plan;
  // Roots that pay make more possible; without them no plan needs more than the plain program.
  for (auto roots : {&plan::idle_roots, &plan::unsaved_roots}) {
    const std::vector<char> unheld = roots(known.graph);
    plan::Answer answer = plan::solve(plan::without(known.graph, unheld), budget_bytes);
    plan = std::move(answer.plan);
    if (!plan) continue;
    known.unheld_roots = std::make_shared<const std::vector<char>>(unheld);
    break;
  }
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  ++plans_made_;
  planning_seconds_ += spent;
  if (plan) plan->planning_seconds = spent;
  if (plan || !known.eviction) return plan;
  plan::Plan none;
  none.choices.assign(known.graph.values.size(), plan::Choice::rebuild_each_time());
  none.signature = known.graph.signature;
  none.budget_bytes = budget_bytes;
  none.bound_seconds = known.graph.seconds;
  none.replay_seconds = known.eviction->replay_seconds + 2 * kWorthEvicting * known.graph.seconds;
  none.seconds = known.graph.seconds + none.replay_seconds;
  none.planning_seconds = spent;
  return none;
}

PlanMatch StepPlanner::no_match() const {
  PlanMatch match;
  match.budget_bytes = budget_bytes(nullptr);
  return match;
}

// A plan for a known step that starts from what is live now; made if there is none that fits.
PlanMatch StepPlanner::match_for(StepProfile& known) {
  const int64_t shift = start_.bytes - known.start_bytes;
  const bool fits = known.plan && !known.stale && start_.bytes <= known.planned_start_bytes;
  PlanMatch match;
  match.budget_bytes = budget_bytes(&known);
  if (!fits) {
    std::optional<plan::Plan> plan = make_plan(known, match.budget_bytes - shift);
    if (!plan) return match;
    plan->budget_bytes += shift;
    plan->peak_bytes += shift;
    plan->at_peak.other += shift;
    prefer_eviction(known, *plan);
    known.kinds = kinds_of(*plan, known.graph);
    known.plan = std::make_shared<const plan::Plan>(std::move(*plan));
    known.planned_start_bytes = start_.bytes;
    known.stale = known.followed = false;
  }
  if (known.plan->strategy == kOnline) return match;
  match.plan = known.plan;
  match.prefix_hashes = known.prefix_hashes;
  match.kinds = known.kinds;
  match.unheld_roots = known.unheld_roots;
  match.is_new = !known.followed;
  return match;
}

// The latest of those that began like this: the last batch of an epoch is followed by the kind that came before it.
PlanMatch StepPlanner::find_match(size_t index, uint64_t prefix_hash) {
  const std::lock_guard lock(mutex_);
  for (size_t k = known_.size(); k-- > 0;) {
    const auto& hashes = *known_[k].prefix_hashes;
    if (index >= hashes.size() || hashes[index] != prefix_hash) continue;
    latest_ = k;
    return match_for(known_[k]);
  }
  return no_match();
}

StepPlanner::StepProfile* StepPlanner::find_known(const std::vector<uint64_t>& prefix_hashes) {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const StepProfile& k) { return *k.prefix_hashes == prefix_hashes; });
  return found == known_.end() ? nullptr : &*found;
}

plan::Graph StepPlanner::end_step(const BudgetedStep& step, const Timeline& timeline, double replay_seconds) {
  const std::lock_guard lock(mutex_);
  followed_ = step.plan() && step.evictions() == 0;
  why_not_ = followed_ ? "" : why_no_plan(step, timeline);
  if (step.most_wanted_bytes() > 0 && budget_.is_best_effort()) {
    smallest_bytes_ = std::max(smallest_bytes_, plan::smallest(timeline.graph()).peak_bytes);
  } else if (step.most_wanted_bytes() > 0 && !step.refused()) {
    refusal_ = shortage_of(timeline.graph(), step);
  }
  if (!timeline.had_backward()) {  // nothing was asked for: nothing to plan
    plan::Graph graph = timeline.graph();
    const StepPeak plain = peak_of(graph, plan::plain(graph));
    if (!other_plain_ || other_plain_->bytes < plain.bytes) other_plain_ = plain;
    return graph;
  }
  StepProfile* known = find_known(timeline.prefix_hashes());
  if (!known) {
    if (known_.size() >= kMostKnown) known_.erase(known_.begin());
    known_.emplace_back();
    known_.back().graph = timeline.graph();
    known_.back().start_bytes = start_.bytes;
    known_.back().prefix_hashes = std::make_shared<const std::vector<uint64_t>>(timeline.prefix_hashes());
    known = &known_.back();
  } else {
    learn(*known, step, timeline, timeline.peak_bytes());
  }
  if (budget_.fraction()) learn_plain(*known, step, timeline);
  if (!step.plan() && step.most_wanted_bytes() == 0 && !step.only_measures()) {
    known->eviction = {replay_seconds, timeline.peak_bytes(), start_.bytes};
    if (known->plan && known->plan->strategy == kOnline) {
      plan::Plan plan = *known->plan;
      expect_eviction(*known, plan);
      known->plan = std::make_shared<const plan::Plan>(std::move(plan));
    }
  }
  latest_ = static_cast<size_t>(known - known_.data());
  return known->graph;
}

// Best from a step that was only measured, which is the plain program. What a step under a budget did has to be taken for
// it otherwise; then a measured one that did the same up to its first backward may know better.
void StepPlanner::learn_plain(StepProfile& known, const BudgetedStep& step, const Timeline& timeline) {
  if (known.plain.bytes > 0 && known.plain.start == start_) return;
  const plan::Graph graph = timeline.graph_without_copies();
  known.plain = peak_of(graph, plan::plain(graph));
  if (step.only_measures()) known.measured = known.plain;
  const size_t forward = ops_before_backward(graph);
  for (const StepProfile& other : known_) {
    const auto& hashes = *other.prefix_hashes;
    if (step.only_measures() || !other.measured || forward == 0 || hashes.size() < forward) continue;
    if (hashes[forward - 1] != (*known.prefix_hashes)[forward - 1]) continue;
    known.plain.raise_to(other.measured->starting_with({start_.bytes, gradients_that_stay(graph)}));
  }
}

// Of those that were live when the open step began.
int64_t StepPlanner::gradients_that_stay(const plan::Graph& graph) const {
  const auto backward = std::find_if(graph.events.begin(), graph.events.end(),
                                     [](const plan::Event& e) { return e.kind == plan::EventKind::unpack; });
  return backward == graph.events.end() ? 0 : std::min(start_.gradient_bytes, backward->gradient_bytes);
}

std::string StepPlanner::why_no_plan(const BudgetedStep& step, const Timeline& timeline) const {
  if (step.only_measures()) {
    return budget_.fraction() && *budget_.fraction() >= 1 ? "the plain program keeps 100 % by itself"
                                                          : "it ran as the plain program, to see what 100 % is";
  }
  if (!timeline.had_backward()) return "no backward ran inside it, so there is nothing to plan";
  if (step.plan()) return "memory ran short although it followed one";
  const auto known = std::find_if(known_.begin(), known_.end(),
                                  [&](const StepProfile& k) { return *k.prefix_hashes == timeline.prefix_hashes(); });
  if (known == known_.end()) return "it is the first of its kind";
  if (known->plan && known->plan->strategy == kOnline)
    return "letting go of values when memory runs short takes less time than any plan found";
  return "no plan fits its budget";
}

void StepPlanner::add_to(Stats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.plans_made = plans_made_;
  stats.planning_seconds = planning_seconds_;
  stats.followed_plan = followed_;
  stats.why_no_plan = why_not_;
}

// The plan was good if the step's peak was as predicted. If not (optimizer state was made, gradients stay from step to step),
// the next one is made from what this step looked like. An operator's time is its shortest so far, for its price: noise only
// adds. The step's is the usual one, for the prediction.
void StepPlanner::learn(StepProfile& known, const BudgetedStep& step, const Timeline& timeline,
                        int64_t measured_peak_bytes) {
  plan::Graph seen = timeline.graph();
  known.shortcuts.resize(seen.ops.size());
  for (const auto& [op, seconds] : timeline.shortcuts()) {
    double& shortest = known.shortcuts[static_cast<size_t>(op)];
    shortest = shortest > 0 ? std::min(shortest, seconds) : seconds;
  }
  if (seen.ops.size() == known.graph.ops.size()) {
    for (size_t i = 0; i < seen.ops.size(); ++i) {
      plan::Op& op = seen.ops[i];
      op.seconds = std::min(op.seconds, known.graph.ops[i].seconds);
      const double estimate = std::min(op.shortcut_seconds, known.graph.ops[i].shortcut_seconds);
      op.shortcut_seconds = known.shortcuts[i] > 0 ? known.shortcuts[i] : estimate;
    }
    for (size_t v = 0; v < std::min(seen.values.size(), known.graph.values.size()); ++v) {
      if (seen.values[v].ways.empty()) seen.values[v].ways = known.graph.values[v].ways;
    }
  }
  const bool online = known.plan && known.plan->strategy == kOnline && !step.plan() && step.most_wanted_bytes() == 0;
  const bool followed = step.plan() && step.plan() == known.plan && step.evictions() == 0;
  known.followed |= step.plan() && step.plan() == known.plan;
  const bool as_predicted =
      online || (followed && measured_peak_bytes <= known.plan->peak_bytes &&
                 static_cast<double>(measured_peak_bytes) >= 0.995 * static_cast<double>(known.plan->peak_bytes));
  if (!known.timed) known.step_seconds.clear();
  if (known.step_seconds.size() == kStepsTimed) known.step_seconds.erase(known.step_seconds.begin());
  known.step_seconds.push_back(seen.seconds);
  seen.seconds = median(known.step_seconds);
  known.graph = std::move(seen);
  known.start_bytes = start_.bytes;
  // The first step verifies, looks for encodings and evicts, and the first that follows a plan verifies: operators run with
  // cold caches then. Times without that come with the next one, and are worth one plan more.
  const bool undisturbed = as_predicted && !step.plan_is_new();
  known.stale = !as_predicted || (undisturbed && !known.timed);
  known.timed |= undisturbed;
}

std::optional<PlanSummary> StepPlanner::summary() const {
  const std::lock_guard lock(mutex_);
  if (known_.empty() || !known_[latest_].plan) return std::nullopt;
  const plan::Plan& plan = *known_[latest_].plan;
  const plan::Graph& graph = known_[latest_].graph;
  PlanSummary s = plan::summarize(plan, graph);
  // What the step takes without rebuilding has become better known since the plan was made.
  s.seconds = graph.seconds + plan.replay_seconds;
  s.bound_seconds = s.seconds - (plan.seconds - plan.bound_seconds);
  s.gap = s.seconds > 0 ? (s.seconds - s.bound_seconds) / s.seconds : 0;
  return s;
}

}  // namespace retrace
