#include "plan/planner.h"

#include <algorithm>

namespace retrace::plan {
namespace {

constexpr int64_t kRungs = 100;  // up to the plain peak: every percent
constexpr int64_t kRounding = 10'000;
constexpr size_t kSmall = 64;  // values
constexpr int kRungSteps = 20, kFinalSteps = 60;

}  // namespace

Planner::Planner(const Graph& graph) : graph_(graph), bench_(graph, *this), small_(graph.values.size() <= kSmall) {
  plain_ = bench_.search.simulate(keep_saved(graph));
  for (const Op& op : graph.ops) all_seconds_ += op.seconds;
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

// A little below the percent, so that a budget of so many percent has its rung however it was rounded.
int64_t Planner::rung_bytes(int64_t number) const {
  return plain_.peak_bytes / kRungs * number - plain_.peak_bytes / kRounding;
}

// From scratch: what another rung left behind must not make a difference.
void Planner::price(int64_t budget_bytes) {
  if (priced_bytes_ == budget_bytes) return;
  priced_bytes_ = budget_bytes;
  bench_.bound.forget();
  bench_.bound.raise(budget_bytes, all_seconds_, kRungSteps);
}

Planner::Rung& Planner::rung(int64_t number) {
  const auto [place, added] = rungs_.try_emplace(number);
  Rung& result = place->second;
  if (!added) return result;
  const int64_t budget = rung_bytes(number);
  const auto& base = bench_.timeline.base();
  result.impossible = !base.empty() && *std::max_element(base.begin(), base.end()) > budget;
  if (result.impossible) return result;
  price(budget);
  result.bound_seconds = bench_.bound.seconds();
  return result;
}

void Planner::solve(Rung& rung, int64_t number) {
  if (rung.solved || rung.impossible) return;
  rung.solved = true;
  price(rung_bytes(number));
  listening_ = small_ ? &all_ : &rung.found;
  listening_below_ = small_ ? INT64_MAX : rung_bytes(number);
  solve_best(bench_, rung_bytes(number));
  listening_ = nullptr;
}

void Planner::consider(const Candidate& candidate, int64_t budget_bytes, Candidate& best) const {
  if (candidate.peak_bytes > budget_bytes) return;
  const bool faster = candidate.seconds < best.seconds;
  const bool lower = candidate.seconds == best.seconds && candidate.peak_bytes < best.peak_bytes;
  if (faster || lower) best = candidate;
}

void Planner::solve_all() {
  for (int64_t number = kRungs; number > 0; --number) {
    Rung& r = rung(number);
    if (r.impossible) break;
    Candidate best;
    for (const Candidate& c : all_) consider(c, rung_bytes(number), best);
    if (best.seconds > r.bound_seconds) solve(r, number);
  }
}

Candidate Planner::best_within(int64_t budget_bytes) {
  Candidate best;
  consider(plain_, budget_bytes, best);
  if (small_) {
    solve_all();
    for (const Candidate& c : all_) consider(c, budget_bytes, best);
    return best;
  }
  int64_t number = kRungs;
  while (number > 0 && rung_bytes(number) > budget_bytes) --number;
  for (; number > 0 && best.seconds > 0; --number) {
    Rung& r = rung(number);
    if (r.impossible || r.bound_seconds >= best.seconds) break;
    solve(r, number);
    for (const Candidate& c : r.found) consider(c, budget_bytes, best);
  }
  return best;
}

Candidate Planner::alone(int64_t budget_bytes, const std::string& strategy) {
  price(budget_bytes);
  if (strategy == "mincut") return solve_mincut(bench_, budget_bytes);
  if (strategy == "chain") return solve_chain(bench_, budget_bytes);
  if (strategy == "every") return solve_every(bench_, budget_bytes);
  return solve_greedy(bench_, budget_bytes);
}

double Planner::lower_bound(int64_t budget_bytes, double target_seconds) {
  Bound bound(graph_, bench_.timeline, bench_.cut);
  bound.raise(budget_bytes, std::min(target_seconds, all_seconds_), kFinalSteps);
  return std::clamp(bound.seconds(), 0.0, target_seconds);  // above: it proves that there is no plan at all
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
  Choices again(graph_.values.size(), Choice::again);
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
    const Outcome least = smallest(graph_);
    if (least.peak_bytes > budget_bytes) return infeasible(least);
    best = {Choices(graph_.values.size(), Choice::again), least.peak_bytes, least.replay_seconds};
    plan.strategy = "again";
  }
  const Outcome outcome = Simulator(graph_).run(best.choices);
  plan.choices = std::move(best.choices);
  plan.lossy_values = lossy_values(plan.choices, graph_);
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
