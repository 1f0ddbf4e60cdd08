#include "plan/solve/bearable.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

constexpr double kNever = 1e300;

// Budgets that are kSlightly apart, from the smallest up to the plain peak, and the seconds of a step within some of
// them.
class PriceLadder {
 public:
  using Price = std::function<double(int64_t budget_bytes)>;

  PriceLadder(const Graph& graph, Price price) : price_(std::move(price)), least_bytes_(smallest(graph).peak_bytes) {
    const auto most_bytes = static_cast<double>(plain(graph).peak_bytes);
    const double ratio = std::max(1.0, most_bytes / static_cast<double>(std::max<int64_t>(1, least_bytes_)));
    top_ = static_cast<size_t>(std::ceil(std::log(ratio) / std::log(1 + kSlightly)));
    seconds_[top_] = graph.seconds;
  }

  int64_t lowest_bearable() {
    size_t found = lowest_bearable(0, top_);
    while (found < top_ && seconds(found) > kBearable * seconds(found + 1)) ++found;
    return budget_bytes(found);
  }

 private:
  // The lowest rung that is bearable; none above `high` is unbearable. A larger budget is never slower, so where both
  // ends are within kBearable of each other nothing between them can be too expensive. The upper half decides first.
  size_t lowest_bearable(size_t low, size_t high) {
    if (low >= high) return high;
    if (seconds(low) <= kBearable * seconds(high)) return low;
    if (high - low == 1) return high;
    const size_t middle = (low + high) / 2, upper = lowest_bearable(middle, high);
    return upper > middle ? upper : lowest_bearable(low, middle);
  }

  // The fastest that was found within this rung or a lower one: a plan is not always faster with more memory, but
  // whatever fits less fits more.
  double seconds(size_t rung) {
    const auto [place, added] = seconds_.try_emplace(rung);
    if (added) place->second = price_(budget_bytes(rung));
    double least = place->second;
    for (auto lower = seconds_.begin(); lower != place; ++lower) least = std::min(least, lower->second);
    return least;
  }

  int64_t budget_bytes(size_t rung) const {
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(least_bytes_) * std::pow(1 + kSlightly, static_cast<double>(rung))));
  }

  const Price price_;
  const int64_t least_bytes_;
  size_t top_ = 0;
  std::map<size_t, double> seconds_;
};

// The plan of the smallest budget.
std::optional<Plan> plan_each_time(const Graph& graph, int64_t budget_bytes) {
  Effort effort;
  Candidate found = rebuild_each_time(graph, effort, budget_bytes, kNever);
  if (found.choices.empty()) return std::nullopt;
  return plan_of(graph, std::move(found.choices), budget_bytes, "rebuild_each_time", 0);
}

}  // namespace

Plan bearable(const Graph& graph) {
  std::map<int64_t, Plan> plans;  // by budget
  const auto price = [&](int64_t budget_bytes) {
    std::optional<Plan> plan = quick_solve(graph, budget_bytes);
    if (!plan) plan = plan_each_time(graph, budget_bytes);
    return plan ? plans.insert_or_assign(budget_bytes, std::move(*plan)).first->second.seconds : kNever;
  };
  const int64_t budget_bytes = PriceLadder(graph, price).lowest_bearable();
  price(budget_bytes);
  const auto fastest =
      std::min_element(plans.begin(), plans.upper_bound(budget_bytes),
                       [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
  Plan plan = std::move(fastest->second);
  plan.budget_bytes = budget_bytes;
  return plan;
}

int64_t bearable_by_eviction(const Graph& graph, int64_t most_effort) {
  Effort effort({}, most_effort);
  return PriceLadder(graph,
                     [&](int64_t budget_bytes) {
                       if (effort.exhausted()) return kNever;
                       const Outcome outcome = by_eviction(graph, budget_bytes, &effort);
                       return outcome.peak_bytes <= budget_bytes ? graph.seconds + outcome.replay_seconds : kNever;
                     })
      .lowest_bearable();
}

}  // namespace retrace::plan
