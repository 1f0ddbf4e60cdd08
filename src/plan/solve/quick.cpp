// A plan in a few simulations.
#include <algorithm>
#include <chrono>
#include <string_view>

#include "plan/solve/plan.h"
#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

constexpr int kPriceSteps = 6, kFillRounds = 3;
constexpr double kGoodEnough = 0.002;  // of the step: not worth a minimum cut
constexpr double kTooSlow = 20;        // steps
constexpr double kFar = 0.03;          // of the step, from the bound: worth another attempt
constexpr double kSearchSeconds = 0.01;

class QuickSearch {
 public:
  QuickSearch(const Graph& graph, int64_t budget_bytes, Effort& effort)
      : graph_(graph), budget_bytes_(budget_bytes), effort_(effort), context_(graph, effort, Search::Runs::whole) {}

  void run() {
    consider("plain", context_.search.simulate(keep_saved(graph_)));
    if (fits() || context_.lifetimes.most_base_bytes() > budget_bytes_) return;  // or nothing can fit
    consider("greedy", finish(best_));
    if (fits() && best_.seconds < kGoodEnough * graph_.seconds) return;
    if (!effort_.exhausted()) consider("from_eviction", finish(evicted(context_, budget_bytes_)));
    if (!effort_.exhausted()) {
      context_.bound.tighten(budget_bytes_, fits() ? best_.seconds : graph_.seconds, kPriceSteps);
      consider("mincut", finish(context_.search.simulate(context_.bound.choices(context_.bound.per_event()))));
    }
    if (is_far() && !effort_.exhausted()) consider("every", every());
    if (!fits() && !effort_.exhausted()) consider("from_frontiers", use("from_frontiers", budget_bytes_));
    // Repairs are a matter of luck where replays hardly fit: a little less may work where this budget does not.
    for (int64_t aim = budget_bytes_; aim > budget_bytes_ - budget_bytes_ / 10 && !fits() && !effort_.exhausted();) {
      consider("from_below", use("from_below", aim));
      aim -= std::max<int64_t>(1, budget_bytes_ / 33);
    }
    if (!fits() && !effort_.exhausted()) {
      consider("rebuild_each_time", rebuild_each_time(graph_, effort_, budget_bytes_, kTooSlow * graph_.seconds));
    }
    if (is_far() && !effort_.exhausted() && can_search_by_price(graph_)) search_by_price();
  }

  bool fits() const { return best_.fits(budget_bytes_); }

  Plan plan() {
    const double bound_seconds = std::clamp(context_.bound.seconds(), 0.0, best_.seconds);
    return plan_of(graph_, std::move(best_.choices), budget_bytes_, strategy_, bound_seconds);
  }

 private:
  void consider(const char* strategy, Candidate found) {
    if (!is_better(found, best_, budget_bytes_)) return;
    best_ = std::move(found);
    strategy_ = strategy;
  }

  Candidate finish(Candidate start) {
    Candidate result = context_.search.repair(std::move(start), budget_bytes_);
    return result.fits(budget_bytes_) ? context_.search.fill(std::move(result), budget_bytes_, kFillRounds) : result;
  }

  Candidate use(std::string_view name, int64_t budget_bytes) {
    const auto all = all_strategies();
    return std::find_if(all.begin(), all.end(), [&](const Strategy& s) { return s.name == name; })
        ->solve(context_, budget_bytes, best_);
  }

  Candidate every() {
    Candidate found = lowest_of_segments(context_, Choice::rebuild());
    return found.choices.empty() ? found : finish(std::move(found));
  }

  bool is_far() const { return !fits() || best_.seconds > context_.bound.seconds() + kFar * graph_.seconds; }

  // Where replays hardly fit, value by value is the only way.
  void search_by_price() {
    effort_.allow(events_in(kSearchSeconds));
    consider(kPricedSearch, use(kPricedSearch, budget_bytes_));
    effort_.allow_all();
  }

  const Graph& graph_;
  const int64_t budget_bytes_;
  Effort& effort_;
  SolverContext context_;
  Candidate best_;
  std::string strategy_;
};

}  // namespace

std::optional<Plan> quick_solve(const Graph& graph, int64_t budget_bytes, Effort& effort) {
  const auto begin = std::chrono::steady_clock::now();
  QuickSearch search(graph, budget_bytes, effort);
  search.run();
  if (!search.fits() || effort.stopped()) return std::nullopt;
  Plan plan = search.plan();
  plan.planning_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

std::optional<Plan> quick_solve(const Graph& graph, int64_t budget_bytes, int64_t most_effort,
                                const std::stop_token& stop) {
  Effort effort(stop, most_effort);
  return quick_solve(graph, budget_bytes, effort);
}

}  // namespace retrace::plan
