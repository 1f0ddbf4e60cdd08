#include "plan/solve/planner.h"

#include <algorithm>

namespace retrace::plan {
namespace {

constexpr int64_t kPercents = 100;
constexpr int64_t kRounding = 10'000;
constexpr int64_t kFine = 4, kFineRungs = 8;  // to a percent, and in all
constexpr size_t kGroup = 4;                  // rungs
constexpr size_t kSmall = 64;                 // values
constexpr size_t kManyValues = 1000;
constexpr int kRungSteps = 20, kFinalSteps = 60;
constexpr double kImpossible = 1e300;
constexpr int64_t kPolishRuns = 40;
constexpr double kFar = 0.03, kTooFar = 0.05;  // of the step, from the bound
constexpr uint32_t kMostOrders = 10;           // in which values are tried
constexpr double kLeastEffort = 0.5;           // of the runs, for plans that are close to it

}  // namespace

Planner::Planner(const Graph& graph) : graph_(graph), context_(graph, *this) {
  plain_ = context_.search.simulate(keep_saved(graph));
  for (const Op& op : graph.ops) all_seconds_ += op.seconds;
  make_ladder();
}

// Every percent, a little below it, so that a budget of so many percent has its rung however it was rounded. Just above
// the smallest budget a percent more can halve the time: there, more of them, and there a group begins.
void Planner::make_ladder() {
  const int64_t percent = plain_.peak_bytes / kPercents;
  const bool small = graph_.values.size() <= kSmall;
  if (tradeable(graph_) && !small) {
    least_bytes_ = again().peak_bytes;
    for (int64_t i = 0; i < kFineRungs; ++i) ladder_.push_back(least_bytes_ + percent * i / kFine);
    group_size_ = kGroup;
  }
  const int64_t begin = least_bytes_, end = begin + percent * kFineRungs / kFine;
  size_t below = 0;
  for (int64_t i = 1; i <= kPercents; ++i) {
    const int64_t bytes = percent * i - plain_.peak_bytes / kRounding;
    below += bytes < begin;
    if (bytes < begin || bytes >= end) ladder_.push_back(bytes);
  }
  for (; below % group_size_ != 0; ++below) ladder_.push_back(0);
  std::sort(ladder_.begin(), ladder_.end());
  if (small) group_size_ = ladder_.size();
}

// Of every candidate the search has simulated, those that fit and that no other beats in both ways.
void Planner::found(const Choices& choices, const Outcome& outcome) {
  if (listening_ == nullptr || outcome.peak_bytes > listening_below_) return;
  Found& all = *listening_;
  const auto beats = [](int64_t peak, double seconds, int64_t other_peak, double other_seconds) {
    return peak <= other_peak && seconds <= other_seconds;
  };
  for (const Candidate& c : all) {
    if (beats(c.peak_bytes, c.seconds, outcome.peak_bytes, outcome.replay_seconds)) return;
  }
  std::erase_if(all, [&](const Candidate& c) {
    return beats(outcome.peak_bytes, outcome.replay_seconds, c.peak_bytes, c.seconds);
  });
  all.push_back({choices, outcome.peak_bytes, outcome.replay_seconds});
}

// From scratch: what another rung left behind must not make a difference.
void Planner::price(int64_t budget_bytes) {
  if (priced_bytes_ == budget_bytes) return;
  priced_bytes_ = budget_bytes;
  context_.bound.reset();
  context_.bound.tighten(budget_bytes, all_seconds_, kRungSteps);
}

// No plan for the rung is faster; more than any plan takes if there can be none.
double Planner::bound(size_t number) {
  const auto [place, added] = bounds_.try_emplace(number, kImpossible);
  if (!added) return place->second;
  const auto& base = context_.lifetimes.base();
  if (!base.empty() && *std::max_element(base.begin(), base.end()) > ladder_[number]) return kImpossible;
  price(ladder_[number]);
  return place->second = context_.bound.seconds();
}

const Planner::Found& Planner::solve_group(size_t group) {
  const auto [place, added] = groups_.try_emplace(group);
  if (!added) return place->second;
  const size_t begin = group * group_size_, end = std::min(ladder_.size(), begin + group_size_);
  listening_ = &place->second;
  listening_below_ = end < ladder_.size() ? ladder_[end] : INT64_MAX;
  const bool trading = tradeable(graph_);
  std::vector<size_t> rungs;  // falling
  Choices cut, lowest;
  double worst_gap = 0;
  bool nothing_fits = false;
  for (size_t number = end; number-- > begin && bound(number) < kImpossible;) {
    if (ladder_[number] >= least_bytes_) rungs.push_back(number);
    const bool between = trading && worst_gap > 0 && number > begin;  // trade() comes through here
    if (between || nothing_fits || best_found(ladder_[number]).seconds <= bound(number)) continue;
    price(ladder_[number]);
    Candidate best = solve_best(context_, ladder_[number]);
    if (ladder_[number] >= least_bytes_ && close_to_bound(context_, best, ladder_[number])) continue;
    nothing_fits = best.peak_bytes > ladder_[number];
    if (cut.empty()) cut = context_.bound.choices(context_.bound.per_event());
    worst_gap = std::max(worst_gap, nothing_fits ? kImpossible : best.seconds - bound(number));
    lowest = std::move(best.choices);
  }
  if (worst_gap > 0 && trading && !rungs.empty()) trade_group(rungs, cut, lowest, worst_gap);
  listening_ = nullptr;
  return place->second;
}

// The cut is close to the bound and far from fitting, the other start the other way round: they lead to different plans.
// Where replays hardly fit, so do another order and what was best so far.
void Planner::trade_group(const std::vector<size_t>& rungs, const Choices& cut, const Choices& lowest,
                          double worst_gap) {
  std::vector<int64_t> budgets;
  for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) budgets.push_back(ladder_[*rung]);
  const size_t top = budgets.size() - 1;
  const double effort = std::clamp(worst_gap / (kFar * graph_.seconds), kLeastEffort, 1.0);
  const auto far = [&](size_t rung, double share) {
    return best_found(ladder_[rung]).seconds > bound(rung) + share * graph_.seconds;
  };
  trade(context_, budgets, top, cut, 0, effort);
  trade(context_, budgets, 0, lowest, 1, effort);
  if (far(rungs.back(), kFar)) {
    trade(context_, budgets, 0, lowest, 2, effort);
    if (const Candidate best = best_found(budgets.back()); !best.choices.empty())
      trade(context_, budgets, top, best.choices, 3, effort);
  }
  // In a large graph each takes a good part of a second: there, until one finds nothing.
  for (uint32_t seed = 4; seed < kMostOrders && far(rungs.front(), kTooFar); ++seed) {
    const double before = seconds_found(budgets);
    trade(context_, budgets, 0, lowest, seed, effort);
    const bool in_vain = before < kImpossible && seconds_found(budgets) >= before;
    if (in_vain && graph_.values.size() >= kManyValues) break;
  }
  for (const int64_t budget_bytes : budgets) {
    if (Candidate best = best_found(budget_bytes); !best.choices.empty())
      context_.search.improve(std::move(best), budget_bytes, static_cast<int64_t>(effort * kPolishRuns));
  }
}

double Planner::seconds_found(const std::vector<int64_t>& budgets) const {
  double sum = 0;
  for (const int64_t budget_bytes : budgets) sum += best_found(budget_bytes).seconds;
  return sum;
}

Candidate Planner::best_found(int64_t budget_bytes) const {
  Candidate best;
  for (const Candidate& c : *listening_) consider(c, budget_bytes, best);
  return best;
}

void Planner::consider(const Candidate& candidate, int64_t budget_bytes, Candidate& best) const {
  if (candidate.peak_bytes > budget_bytes) return;
  const bool faster = candidate.seconds < best.seconds;
  const bool lower = candidate.seconds == best.seconds && candidate.peak_bytes < best.peak_bytes;
  if (faster || lower) best = candidate;
}

// A larger budget looks at all that a smaller one does. Groups further down are left out once the bound shows that
// nothing in them is faster: what they find stays below their upper end.
Candidate Planner::best_within(int64_t budget_bytes) {
  Candidate best;
  consider(plain_, budget_bytes, best);
  size_t rungs = ladder_.size();
  while (rungs > 0 && ladder_[rungs - 1] > budget_bytes) --rungs;
  for (size_t group = (rungs + group_size_ - 1) / group_size_; group-- > 0 && best.seconds > 0;) {
    for (const Candidate& c : solve_group(group)) consider(c, budget_bytes, best);
    if (bound(group * group_size_) >= best.seconds) break;
  }
  return best;
}

Candidate Planner::alone(int64_t budget_bytes, const std::string& strategy) {
  price(budget_bytes);
  if (strategy == "mincut") return solve_mincut(context_, budget_bytes);
  if (strategy == "chain") return solve_chain(context_, budget_bytes);
  if (strategy == "every") return solve_every(context_, budget_bytes);
  return solve_greedy(context_, budget_bytes);
}

double Planner::lower_bound(int64_t budget_bytes, double target_seconds) {
  Bound bound(graph_, context_.lifetimes, context_.cut);
  bound.tighten(budget_bytes, std::min(target_seconds, all_seconds_), kFinalSteps);
  return std::clamp(bound.seconds(), 0.0, target_seconds);  // above: it proves that there is no plan at all
}

// Everything rebuilt whenever it is asked for: the lowest of peaks that need no search.
Outcome Planner::again() const {
  return Simulator(graph_).run(Choices(graph_.values.size(), Choice::rebuild_each_time()));
}

Answer Planner::infeasible(const Outcome& smallest) const {
  Answer answer;
  answer.smallest_bytes = smallest.peak_bytes;
  answer.smallest_at_peak = smallest.at_peak;
  return answer;
}

// Rebuilding everything again and again is a plan too, and the last resort of smaller budgets. It is hardly ever the
// faster one, which a run that gives up soon shows.
void Planner::consider_again(int64_t budget_bytes, Candidate& best) const {
  if (best.peak_bytes > budget_bytes || best.seconds <= 0) return;
  Choices again(graph_.values.size(), Choice::rebuild_each_time());
  const Outcome outcome = Simulator(graph_).run(again, false, budget_bytes, best.seconds);
  if (outcome.peak_bytes <= budget_bytes && outcome.replay_seconds < best.seconds)
    best = {std::move(again), outcome.peak_bytes, outcome.replay_seconds};
}

Answer Planner::solve(int64_t budget_bytes, const std::string& strategy) {
  Candidate best = strategy == "best" ? best_within(budget_bytes) : alone(budget_bytes, strategy);
  if (strategy == "best") consider_again(budget_bytes, best);
  Plan plan;
  plan.strategy = strategy;
  if (best.peak_bytes > budget_bytes) {
    const Outcome least = again();
    if (least.peak_bytes > budget_bytes) return infeasible(smallest(graph_));
    best = {Choices(graph_.values.size(), Choice::rebuild_each_time()), least.peak_bytes, least.replay_seconds};
    plan.strategy = "again";
  }
  const Outcome outcome = Simulator(graph_).run(best.choices);
  plan.choices = std::move(best.choices);
  plan.held = held_values(plan.choices, graph_);
  plan.signature = graph_.signature;
  plan.budget_bytes = budget_bytes;
  plan.peak_bytes = outcome.peak_bytes;
  plan.at_peak = outcome.at_peak;
  plan.replay_seconds = outcome.replay_seconds;
  plan.seconds = graph_.seconds + outcome.replay_seconds;
  plan.bound_seconds = graph_.seconds + lower_bound(budget_bytes, outcome.replay_seconds);
  Answer answer;
  answer.plan = std::move(plan);
  return answer;
}

}  // namespace retrace::plan
