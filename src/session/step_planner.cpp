#include "session/step_planner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <retrace/errors.h>

#include "memory/allocator.h"

namespace retrace {
namespace {

// A program whose shapes never repeat must not make us remember all of them.
constexpr size_t kMostProfiles = 32;
constexpr size_t kMostProfileBytes = size_t{64} << 20;

// What a quick plan may take, so that no step is held up.
constexpr double kQuickShare = 0.02;  // of the step
constexpr double kQuickSeconds = 0.005;

// A plan that rebuilds for longer than this is compared with what eviction would take.
constexpr double kSlowPlan = 0.5;  // of the step

constexpr double kWorthSearching = 0.005;  // of the step: what is rebuilt, or more could be saved than that

// Whether something that autograd saved is still there at its end.
bool leaves_graph(const plan::Graph& graph) {
  const auto drops = std::count_if(graph.events.begin(), graph.events.end(),
                                   [](const plan::Event& e) { return e.kind == plan::EventKind::drop; });
  return static_cast<size_t>(drops) < graph.handles.size();
}

}  // namespace

std::shared_ptr<BudgetedStep> StepPlanner::begin_step(const std::shared_ptr<Timeline>& timeline) {
  const std::lock_guard lock(mutex_);
  const StepStart before = budget_.begin_step();
  begun_with_more_ = steps_ > 0 && start().bytes > before.bytes ? begun_with_more_ + 1 : 0;
  if (const auto refusal = std::exchange(refusal_, std::nullopt)) refusal->refuse(refusal->smallest_bytes(start()));
  ++steps_;
  PlanMatch match = no_match();
  if (!profiles_.empty()) {
    StepProfile& latest = *profiles_.back();
    adopt_found();
    if (needs_plan(latest)) plan(latest);
    start_search(latest);
    plan_for_relatives();
    match = match_for(expected_next());
  }
  auto step = std::make_shared<BudgetedStep>(
      store::kinds(budget_.given().allows_bfloat16()), std::move(match),
      [this](size_t index, uint64_t hash) { return find_match(index, hash); },
      [this, weak = std::weak_ptr(timeline)](const BudgetedStep& step) {
        const auto open = weak.lock();
        if (!open || budget_.given().is_best_effort() || budget_.is_within_percent(step, *open)) return;
        const Shortage shortage(*open, step, start(), what_may_come());
        shortage.refuse(shortage.smallest_bytes());
      });
  for (const auto& p : profiles_) most_backwards_ = std::max(most_backwards_, p->graph->backwards.size());
  step->expect_backwards(most_backwards_);
  return step;
}

std::string StepPlanner::what_may_come() const {
  if (steps_ == 1)
    return " What comes later in a first step (another backward, state that an optimizer makes) is not in it.";
  if (begun_with_more_ < 2) return "";
  return " The latest " + std::to_string(begun_with_more_ + 1) +
         " steps each began with more live than the one before (state that an optimizer collects, results that are "
         "kept), so later ones may need more.";
}

bool StepPlanner::is_settled(const std::shared_ptr<const plan::Graph>& latest) const {
  const std::lock_guard lock(mutex_);
  if (profiles_.empty() || profiles_.back()->graph != latest) return false;
  const StepProfile& profile = *profiles_.back();
  const Planned* const planned = profile.planned();
  const bool runs_as_it_will = profile.is_evicting() || (planned && planned->followed);
  return runs_as_it_will && profile.timed && profile.as_predicted && profile.looked_for_ways;
}

bool StepPlanner::needs_plan(const StepProfile& profile) const {
  const int64_t budget = budget_.bytes(&profile);
  if (budget == kNoBudget) return false;
  const bool waits = planning_ == Planning::foreground;
  // Nothing is planned for what does not come back; but of a program's first step nothing else is likely.
  if (std::holds_alternative<NotPlanned>(profile.state))
    return waits || ((profile.seen > 1 || profiles_made_ == 1) && profile.seen >= profile.may_replan_at);
  const bool fits = !profile.planned() || profile.planned()->peak_bytes(start()) <= budget;
  if (waits) return !fits || !profile.as_predicted || profile.better_timed;
  return (!fits || !profile.as_predicted) && profile.seen >= profile.may_replan_at;
}

// For a step that starts with what is live now.
void StepPlanner::plan(StepProfile& profile) {
  const auto began = std::chrono::steady_clock::now();
  const int64_t budget = budget_.bytes(&profile);
  const int64_t shift = start().bytes - profile.start.bytes;
  const bool waits = planning_ == Planning::foreground;
  const double quick_seconds = std::max(kQuickShare * profile.graph->seconds, kQuickSeconds);
  std::optional<FoundPlan> found = waits ? find_plan(*profile.graph, budget - shift)
                                         : find_quick_plan(*profile.graph, budget - shift, quick_seconds);
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  ++plans_made_;
  planning_seconds_ += spent;
  // Twice as many steps must pass before the next, but for the first few: optimizers make their state then.
  profile.may_replan_at = profile.seen <= 3 ? profile.seen + 1 : 2 * profile.seen;
  profile.better_timed &= !waits;
  profile.wants_search = true;
  if (found) {
    found->plan.planning_seconds = spent;
    found->move_to(budget, shift);
    if (found->plan.replay_seconds > kSlowPlan * profile.graph->seconds) profile.predict_eviction(budget, start());
    if (!asks_for_more(profile, found->plan)) profile.adopt(std::move(*found), start(), false);
  } else if (profile.can_evict_within(budget)) {
    profile.go_by_eviction(0, spent);
  } else {
    profile.state = NotPlanned{};
  }
}

// Close to the smallest budget everything may be rebuilt every time, in many times the step's time. What eviction takes
// is known for this budget or, until then, for a larger one.
bool StepPlanner::asks_for_more(StepProfile& profile, const plan::Plan& plan) const {
  const double evicting_seconds = profile.eviction ? profile.eviction->replay_seconds : 0;
  const double step_seconds = profile.graph->seconds;
  const bool is_bearable = profile.can_evict_within(plan.budget_bytes)
                               ? std::min(plan.replay_seconds, evicting_seconds) <= step_seconds
                               : plan.replay_seconds <= step_seconds + evicting_seconds;
  if (is_bearable || profile.takes_largest_share || budget_.bytes(nullptr) <= budget_.bytes(&profile)) return false;
  profile.takes_largest_share = profile.wants_search = true;
  profile.state = NotPlanned{};
  profile.may_replan_at = profile.seen + 1;
  return true;
}

// Searches for as long as the search could have saved in the steps like this so far.
void StepPlanner::start_search(StepProfile& profile) {
  if (planning_ == Planning::foreground || search_.running || profile.seen < profile.may_search_at) return;
  const int64_t budget = budget_.bytes(&profile);
  if (budget == kNoBudget) return;
  if (!profile.wants_search && !profile.better_timed) return;
  const double replay_seconds = profile.planned()  ? profile.planned()->plan->replay_seconds
                                : profile.eviction ? profile.eviction->replay_seconds
                                                   : profile.graph->seconds;
  if (replay_seconds < kWorthSearching * profile.graph->seconds) return;
  profile.better_timed = profile.wants_search = false;
  search_.profile = profile.id;
  search_.start = start();
  search_.shift_bytes = start().bytes - profile.start.bytes;
  search_.running =
      std::make_unique<PlanSearch>(profile.graph, profile.planned(), budget - search_.shift_bytes,
                                   std::max(replay_seconds * static_cast<double>(profile.seen), kLeastSearchSeconds));
}

void StepPlanner::adopt_found() {
  if (!search_.running || !search_.running->is_done()) return;
  PlanSearch::Result result = search_.running->take();
  search_.running.reset();
  ++plans_made_;
  background_planning_seconds_ += result.seconds;
  const auto searched =
      std::find_if(profiles_.begin(), profiles_.end(), [&](const auto& p) { return p->id == search_.profile; });
  if (searched == profiles_.end()) {
    search_.for_relatives = false;
    return;
  }
  StepProfile& profile = **searched;
  if (std::exchange(search_.for_relatives, false)) {
    const bool helps = result.found && result.found->plan.replay_seconds < profile.eviction->replay_seconds;
    if (helps) related_ = std::make_shared<const plan::RelatedPlan>(*profile.graph, result.found->plan.choices);
    return;
  }
  // One that was cut short begins again when there is twice as much to gain.
  if (!result.complete) {
    profile.wants_search = true;
    profile.may_search_at = 2 * profile.seen;
  }
  if (!result.found) return;
  plan::Plan& plan = result.found->plan;
  plan.planning_seconds = result.seconds;
  result.found->move_to(budget_.bytes(&profile), search_.shift_bytes);
  const Planned* const now = profile.planned();
  const bool fits = plan.peak_bytes + start().bytes - search_.start.bytes <= plan.budget_bytes;
  if (!fits || (now && now->plan->replay_seconds <= plan.replay_seconds) || asks_for_more(profile, plan)) return;
  profile.adopt(std::move(*result.found), search_.start, true);
}

// Steps that are all of new kinds get no plan of their own. A plan for the step that rebuilt most tells what is best
// let go of in the others.
void StepPlanner::plan_for_relatives() {
  if (planning_ == Planning::foreground || search_.running) return;
  if (profiles_.back()->seen > 1 || related_seconds_ < may_relate_at_seconds_) return;
  const auto replay_seconds = [](const std::unique_ptr<StepProfile>& p) {
    return p->eviction && !p->helped_relatives ? p->eviction->replay_seconds : 0;
  };
  StepProfile& chosen = **std::max_element(profiles_.begin(), profiles_.end(),
                                           [&](auto& a, auto& b) { return replay_seconds(a) < replay_seconds(b); });
  const int64_t budget = budget_.bytes(nullptr);
  if (budget == kNoBudget || chosen.helped_relatives || !chosen.eviction) return;
  search_.profile = chosen.id;
  search_.for_relatives = chosen.helped_relatives = true;
  search_.running = std::make_unique<PlanSearch>(chosen.graph, nullptr, budget - (start().bytes - chosen.start.bytes),
                                                 related_seconds_);
  may_relate_at_seconds_ = 2 * related_seconds_;
}

PlanMatch StepPlanner::no_match() const {
  PlanMatch match;
  match.related = related_;
  match.budget_bytes = budget_.bytes(nullptr);
  match.share = budget_.given().fraction().value_or(0);
  match.raised_to_share = budget_.is_in_doubt();
  match.looks_for_ways = steps_ == 1;
  return match;
}

PlanMatch StepPlanner::match_for(const StepProfile& profile) const {
  PlanMatch match;
  // In percent: to do with a small share by eviction may take many times as long as the step itself.
  const bool waits_for_plan = std::holds_alternative<NotPlanned>(profile.state);
  match.budget_bytes = std::max(budget_.bytes(&profile), waits_for_plan ? budget_.bytes(nullptr) : 0);
  match.share = budget_.given().fraction().value_or(0);
  match.raised_to_share = budget_.is_in_doubt();
  match.prefix_hashes = profile.prefix_hashes;
  match.looks_for_ways = !profile.looked_for_ways;
  if (waits_for_plan) match.related = related_;
  const Planned* const planned = profile.planned();
  if (!planned) return match;
  match.plan = planned->plan;
  match.graph = profile.graph;
  match.kinds = planned->kinds;
  match.unheld_roots = planned->unheld_roots;
  match.is_new = !planned->followed;
  return match;
}

// The latest kind of step that began like this: the last batch of an epoch is followed by the kind that came before it.
// One that has a plan, if there is any.
PlanMatch StepPlanner::find_match(size_t index, uint64_t prefix_hash) {
  const std::lock_guard lock(mutex_);
  const StepProfile* found = nullptr;
  for (auto p = profiles_.rbegin(); p != profiles_.rend(); ++p) {
    if (!(*p)->matches(index, prefix_hash) || (found && !(*p)->planned())) continue;
    found = p->get();
    if (found->planned()) break;
  }
  return found ? match_for(*found) : no_match();
}

StepProfile* StepPlanner::find_profile(const Timeline& timeline) {
  const auto found = std::find_if(profiles_.begin(), profiles_.end(),
                                  [&](const auto& p) { return *p->prefix_hashes == timeline.prefix_hashes(); });
  if (found == profiles_.end()) return nullptr;
  std::rotate(found, found + 1, profiles_.end());
  return profiles_.back().get();
}

// Most likely it is like the step before; unless that was followed by another kind the last two times, as where a
// program trains on two tasks in turn.
const StepProfile& StepPlanner::expected_next() const {
  const StepProfile& latest = *profiles_.back();
  if (latest.then != latest.then_before) return latest;
  const auto next = std::find_if(profiles_.begin(), profiles_.end(), [&](auto& p) { return p->id == latest.then; });
  return next == profiles_.end() ? latest : **next;
}

StepProfile& StepPlanner::add_profile(Timeline& timeline) {
  profiles_.push_back(std::make_unique<StepProfile>(timeline, start()));
  profiles_.back()->id = ++profiles_made_;
  forget_some();
  return *profiles_.back();
}

// Those that were not seen for the longest time.
void StepPlanner::forget_some() {
  size_t bytes = 0, stay = 0;
  for (auto p = profiles_.rbegin(); p != profiles_.rend(); ++p, ++stay) {
    bytes += (*p)->host_bytes();
    if (stay > 0 && (stay == kMostProfiles || bytes > kMostProfileBytes)) break;
  }
  profiles_.erase(profiles_.begin(), profiles_.end() - static_cast<std::ptrdiff_t>(stay));
}

std::shared_ptr<const plan::Graph> StepPlanner::end_step(const BudgetedStep& step, Timeline& timeline,
                                                         double replay_seconds) {
  const std::lock_guard lock(mutex_);
  budget_.end_step();
  followed_ = timeline.had_backward() && step.ends_with_plan(timeline.ops_met()) && step.evictions() == 0;
  why_not_ = followed_ ? "" : why_no_plan(step, timeline);
  const bool within_percent = budget_.is_within_percent(step, timeline);
  if (step.most_wanted_bytes() > 0 && budget_.given().is_best_effort()) {
    budget_.broken_by(timeline.graph());
  } else if (step.most_wanted_bytes() > 0 && !step.refused() && !within_percent) {
    refusal_.emplace(timeline, step, start(), what_may_come());
  }
  if (!timeline.had_backward()) {  // nothing was asked for: nothing to plan
    auto graph = std::make_shared<const plan::Graph>(timeline.take_graph());
    // An evaluation, or nothing, is no measure for what trains.
    if (leaves_graph(*graph)) budget_.learn_without_backward(*graph, step, timeline);
    return graph;
  }
  const int64_t before = profiles_.empty() ? 0 : profiles_.back()->id;
  StepProfile* profile = find_profile(timeline);
  if (profile) {
    profile->learn(step, timeline, start());
  } else {
    profile = &add_profile(timeline);
    if (profiles_made_ > 1) related_seconds_ += replay_seconds;
  }
  for (const auto& p : profiles_) {
    if (p->id == before) p->then_before = std::exchange(p->then, profile->id);
  }
  profile->looked_for_ways |= step.looks_for_ways();
  budget_.learn(*profile, step, timeline);
  if (within_percent) profile->least_bytes = std::max(profile->least_bytes, step.most_wanted_bytes());
  profile->learn_eviction(step, timeline.peak_bytes(), replay_seconds, start());
  return profile->graph;
}

std::string StepPlanner::why_no_plan(const BudgetedStep& step, const Timeline& timeline) {
  if (step.only_measures()) {
    return budget_.given().fraction() && *budget_.given().fraction() >= 1
               ? "the plain program keeps 100 % by itself"
               : "it ran as the plain program, to see what 100 % is";
  }
  if (!timeline.had_backward()) return "no backward ran inside it, so there is nothing to plan";
  if (step.ends_with_plan(timeline.ops_met())) return "memory ran short although it followed one";
  const StepProfile* const profile = find_profile(timeline);
  if (!profile) return "it is the first of its kind";
  if (profile->is_evicting()) return "letting go of values when memory runs short takes less time than any plan found";
  return planning_ == Planning::background && profile->seen < 2 ? "it is the second of its kind, and the next gets one"
                                                                : "no plan fits its budget";
}

void StepPlanner::add_to(Stats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.plans_made = plans_made_;
  stats.planning_seconds = planning_seconds_;
  stats.background_planning_seconds = background_planning_seconds_;
  stats.followed_plan = followed_;
  stats.why_no_plan = why_not_;
}

std::optional<PlanSummary> StepPlanner::summary() const {
  const std::lock_guard lock(mutex_);
  if (profiles_.empty() || std::holds_alternative<NotPlanned>(profiles_.back()->state)) return std::nullopt;
  return profiles_.back()->summary(budget_.bytes(profiles_.back().get()), start());
}

}  // namespace retrace
