#include "plan/solve/planner.h"

#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

namespace retrace::plan {
namespace {

constexpr int64_t kPercents = 100;
constexpr int64_t kRounding = 10'000;
constexpr int64_t kFine = 4, kFineRungs = 8;  // to a percent, and in all
constexpr size_t kGroup = 4;                  // rungs
constexpr size_t kSmall = 24;                 // values
constexpr size_t kManyValues = 1000;
constexpr int kRungSteps = 20, kFinalSteps = 60;
constexpr double kImpossible = 1e300;
constexpr int64_t kPolishRuns = 40;
constexpr double kFar = 0.03, kTooFar = 0.05;  // of the step, from the bound
constexpr uint32_t kMostOrders = 10;           // in which values are tried
constexpr double kLeastEffort = 0.5;           // of the runs, for plans that are close to it
constexpr double kNotWorth = 0.002;            // of the step: nobody would notice so much less
constexpr double kNoneFits = 0.1;              // of the step, as if so much could be gained
constexpr double kPaysWithin = 100;            // steps: what a search may take, if it gained all there is to gain
constexpr double kLeastSeconds = 2e-3, kMostSeconds = 1;  // of the search of one group
constexpr double kMostSecondsIfFar = 1.5;                 // of what follows where plans are far from the bound
constexpr size_t kGroupsBelow = 2;                        // that a budget looks into

}  // namespace

Planner::Planner(const Graph& graph, SolveOptions options)
    : graph_(graph),
      options_(std::move(options)),
      effort_(options_.stop, options_.most_effort),
      context_(graph, effort_) {
  plain_ = context_.search.simulate(keep_saved(graph));
  for (const Op& op : graph.ops) all_seconds_ += op.seconds;
  make_ladder();
}

// Every percent, a little below it, so that a budget of so many percent has its rung however it was rounded. Just above
// the smallest budget a percent more can halve the time: there, more of them, and there a group begins.
void Planner::make_ladder() {
  const int64_t percent = plain_.peak_bytes / kPercents;
  const bool small = graph_.values.size() <= kSmall;
  if (can_search_by_price(graph_) && !small) {
    group_size_ = kGroup;
    const int64_t least = rebuild_each_time(graph_, effort_, INT64_MAX, kImpossible).peak_bytes;
    if (least < INT64_MAX) least_bytes_ = least;  // else the search was stopped
    for (int64_t i = 0; least_bytes_ > 0 && i < kFineRungs; ++i) ladder_.push_back(least_bytes_ + percent * i / kFine);
  }
  const int64_t begin = least_bytes_, end = begin > 0 ? begin + percent * kFineRungs / kFine : 0;
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

// Every use of a strategy comes through here: it has a name, can be switched off, is timed, what it returns can be
// verified, and whatever else it came across goes to `front`.
Candidate Planner::run(const std::string& name, Front* front, const std::function<Candidate()>& strategy) {
  if (std::find(options_.without.begin(), options_.without.end(), name) != options_.without.end()) return {};
  const auto begin = std::chrono::steady_clock::now();
  Candidate best = strategy();
  Front found = context_.search.take_front();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  auto use = std::find_if(uses_.begin(), uses_.end(), [&](const StrategyUse& u) { return u.name == name; });
  if (use == uses_.end()) use = uses_.insert(uses_.end(), {name});
  ++use->calls;
  use->seconds += taken.count();
  if (options_.verify_strategies) {
    verify_found(name, best);
    for (const Candidate& c : found.candidates()) verify_found(name, c);
  }
  if (front != nullptr) front->merge(std::move(found));
  return best;
}

void Planner::verify_found(const std::string& name, const Candidate& found) const {
  if (found.choices.empty() || found.peak_bytes >= kGaveUp) return;
  verify(found.choices, graph_);
  const Outcome outcome = Simulator(graph_).run(found.choices);
  if (outcome.peak_bytes == found.peak_bytes && outcome.replay_seconds == found.seconds) return;
  throw InternalError(
      "[solve] strategy '" + name +
      "' found a plan that the simulator does not confirm, so nothing was planned. Please report it, and "
      "plan without it meanwhile (SolveOptions::without).");
}

Candidate Planner::run_alone(int64_t budget_bytes) {
  price(budget_bytes);
  const auto all = all_strategies();
  const auto chosen =
      std::find_if(all.begin(), all.end(), [&](const Strategy& s) { return s.name == options_.strategy; });
  return run(chosen->name, nullptr, [&] { return chosen->solve(context_, budget_bytes, {}); });
}

// The events that a search may take which could gain so much in every step.
int64_t Planner::worth(double gap_seconds) const {
  return events_in(std::clamp(kPaysWithin * gap_seconds, kLeastSeconds, kMostSeconds));
}

// What a better plan for a rung could still gain. Where none fits yet, there may be none.
double Planner::gap(const Candidate& best, size_t number) {
  return best.fits(ladder_[number]) ? best.seconds - bound(number) : kNoneFits * graph_.seconds;
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
  if (context_.lifetimes.most_base_bytes() > ladder_[number]) return kImpossible;
  price(ladder_[number]);
  return place->second = context_.bound.seconds();
}

// The strategies one after another, until one is close to the bound or more are not worth it.
Candidate Planner::solve_rung(size_t number, Front& front) {
  const int64_t budget_bytes = ladder_[number];
  price(budget_bytes);
  Candidate best;
  for (const Strategy& strategy : all_strategies()) {
    if (!strategy.in_best) continue;
    if (!best.fits(budget_bytes)) effort_.allow(events_in(kMostSeconds / 8));  // each its share, until one fits
    if (effort_.exhausted()) break;
    Candidate found = run(strategy.name, &front, [&] { return strategy.solve(context_, budget_bytes, best); });
    if (is_better(found, best, budget_bytes)) best = std::move(found);
    if (close_to_bound(context_, best, budget_bytes)) break;
    if (strategy.name == all_strategies().front().name) effort_.allow(worth(gap(best, number)) / 4);
  }
  effort_.allow_all();
  return best;
}

const Front& Planner::solve_group(size_t group) {
  const auto [place, added] = groups_.try_emplace(group);
  Front& front = place->second;
  if (!added) return front;
  const size_t begin = group * group_size_, end = std::min(ladder_.size(), begin + group_size_);
  context_.search.collect(end < ladder_.size() ? ladder_[end] : INT64_MAX);
  context_.search.forget_base();
  const bool by_price = can_search_by_price(graph_);
  std::vector<size_t> rungs;  // falling
  Choices cut, lowest;
  double worst_gap = 0;
  bool nothing_fits = false;
  for (size_t number = end; number-- > begin && !effort_.exhausted() && bound(number) < kImpossible;) {
    if (ladder_[number] >= least_bytes_) rungs.push_back(number);
    const bool between = by_price && worst_gap > 0 && number > begin;  // the search by price comes through here
    if (between || nothing_fits || front.best(ladder_[number]).seconds <= bound(number)) continue;
    Candidate best = solve_rung(number, front);
    if (ladder_[number] >= least_bytes_ && close_to_bound(context_, best, ladder_[number])) continue;
    nothing_fits = !best.fits(ladder_[number]);
    if (cut.empty()) cut = context_.bound.choices(context_.bound.per_event());
    worst_gap = std::max(worst_gap, nothing_fits ? kImpossible : best.seconds - bound(number));
    lowest = best.choices.empty() ? cut : std::move(best.choices);
  }
  if (worst_gap > 0 && by_price && !rungs.empty()) {
    effort_.allow(worth(std::min(worst_gap, kNoneFits * graph_.seconds)) / 2);
    search_group_by_price(rungs, cut, lowest, worst_gap, front);
    effort_.allow_all();
  }
  context_.search.collect(-1);
  return front;
}

// The cut is close to the bound and far from fitting, the other start the other way round: they lead to different
// plans. Where replays hardly fit, so do another order and what was best so far.
void Planner::search_group_by_price(const std::vector<size_t>& rungs, const Choices& cut, const Choices& lowest,
                                    double worst_gap, Front& front) {
  std::vector<int64_t> budgets;
  for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) budgets.push_back(ladder_[*rung]);
  const size_t top = budgets.size() - 1;
  const double effort = std::clamp(worst_gap / (kFar * graph_.seconds), kLeastEffort, 1.0);
  const auto is_far = [&](size_t rung, double share) {
    return front.best(ladder_[rung]).seconds > bound(rung) + share * graph_.seconds;
  };
  const auto search = [&](size_t first, const Choices& start, uint32_t seed) {
    if (effort_.exhausted()) return;
    run(kPricedSearch, &front, [&] {
      search_by_price(context_, budgets, first, start, seed, effort);
      return Candidate{};
    });
  };
  const auto seconds_found = [&] {
    double sum = 0;
    for (const int64_t budget_bytes : budgets) sum += front.best(budget_bytes).seconds;
    return sum;
  };
  search(top, cut, 0);
  search(0, lowest, 1);
  if (is_far(rungs.back(), kFar)) {
    const double still = gap(front.best(ladder_[rungs.back()]), rungs.back());
    effort_.allow(std::min(events_in(kMostSecondsIfFar), events_in(kPaysWithin * still)));
    search(0, lowest, 2);
    if (const Candidate best = front.best(budgets.back()); !best.choices.empty()) search(top, best.choices, 3);
  }
  // In a large graph each takes a good part of a second: there, until one finds nothing.
  for (uint32_t seed = 4; seed < kMostOrders && !effort_.exhausted() && is_far(rungs.front(), kTooFar); ++seed) {
    const double before = seconds_found();
    search(0, lowest, seed);
    const bool in_vain = before < kImpossible && seconds_found() >= before;
    if (in_vain && graph_.values.size() >= kManyValues) break;
  }
  for (const int64_t budget_bytes : budgets) {
    Candidate best = front.best(budget_bytes);
    if (best.choices.empty() || effort_.exhausted()) continue;
    run("improve", &front, [&] {
      return context_.search.improve(std::move(best), budget_bytes, static_cast<int64_t>(effort * kPolishRuns));
    });
  }
}

// A larger budget looks at all that a slightly smaller one does. Groups further down are left out once the bound shows
// that nothing in them is faster: what they find stays below their upper end.
Candidate Planner::best_within(int64_t budget_bytes) {
  Candidate best;
  const auto consider = [&](Candidate c) {
    if (!c.fits(budget_bytes)) return;
    if (c.seconds < best.seconds || (c.seconds == best.seconds && c.peak_bytes < best.peak_bytes)) best = std::move(c);
  };
  consider(plain_);
  if (!options_.known.empty()) {
    const Outcome outcome = Simulator(graph_).run(options_.known);
    consider({options_.known, outcome.peak_bytes, outcome.replay_seconds});
    const double known_seconds = best.fits(budget_bytes) ? best.seconds : kImpossible;
    if (known_seconds - lower_bound(budget_bytes, known_seconds) < kNotWorth * graph_.seconds) return best;
  }
  size_t rungs = ladder_.size();
  while (rungs > 0 && ladder_[rungs - 1] > budget_bytes) --rungs;
  const size_t groups = (rungs + group_size_ - 1) / group_size_;
  for (size_t group = groups; group-- > 0 && best.seconds > 0 && groups - group <= 1 + kGroupsBelow;) {
    consider(solve_group(group).best(budget_bytes));
    if (effort_.exhausted() || bound(group * group_size_) >= best.seconds - kNotWorth * graph_.seconds) break;
  }
  return best;
}

double Planner::lower_bound(int64_t budget_bytes, double target_seconds) {
  Bound bound(graph_, context_.lifetimes, context_.cut);
  bound.tighten(budget_bytes, std::min(target_seconds, all_seconds_), kFinalSteps);
  return std::clamp(bound.seconds(), 0.0, target_seconds);  // above: it proves that there is no plan at all
}

Answer Planner::solve(int64_t budget_bytes) {
  uses_.clear();
  std::string strategy = options_.strategy;
  const bool impossible = context_.lifetimes.most_base_bytes() > budget_bytes;
  Candidate best;
  if (!impossible) best = strategy == kBest ? best_within(budget_bytes) : run_alone(budget_bytes);
  const bool stopped = effort_.stopped();
  // The last resort of the smallest budgets.
  if (!impossible && !best.fits(budget_bytes) && !stopped) {
    best = rebuild_each_time(graph_, effort_, budget_bytes, kImpossible);
    strategy = "rebuild_each_time";
  }
  Answer answer;
  answer.strategies = uses_;
  answer.stopped = stopped;
  if (best.fits(budget_bytes)) {
    const double least_seconds = lower_bound(budget_bytes, best.seconds);
    answer.plan = plan_of(graph_, std::move(best.choices), budget_bytes, strategy, least_seconds);
  } else if (!stopped) {
    const Outcome least = smallest(graph_);
    answer.smallest_bytes = least.peak_bytes;
    answer.smallest_at_peak = least.at_peak;
  }
  answer.effort = effort_.spent();
  return answer;
}

}  // namespace retrace::plan
