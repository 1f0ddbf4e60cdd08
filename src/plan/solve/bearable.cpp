#include "plan/solve/bearable.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

// Budgets that are kSlightly apart, from the smallest up to the plain peak, and plans for some of them.
class PriceLadder {
 public:
  PriceLadder(const Graph& graph, int64_t most_effort, const std::stop_token& stop)
      : graph_(graph), effort_(stop, most_effort) {
    least_bytes_ = smallest(graph).peak_bytes;
    const auto most_bytes = static_cast<double>(plain(graph).peak_bytes);
    const double ratio = std::max(1.0, most_bytes / static_cast<double>(std::max<int64_t>(1, least_bytes_)));
    top_ = static_cast<size_t>(std::ceil(std::log(ratio) / std::log(1 + kSlightly)));
  }

  std::optional<Plan> lowest_bearable() {
    if (fastest_within(top_) == nullptr) return std::nullopt;
    size_t found = lowest_bearable(0, top_);
    while (found < top_ && seconds(found) > kBearable * seconds(found + 1)) ++found;
    Plan* const plan = fastest_within(found);
    if (effort_.stopped() || plan == nullptr) return std::nullopt;
    plan->budget_bytes = budget_bytes(found);
    return std::move(*plan);
  }

 private:
  // No rung above `high` is unbearable. A larger budget is never slower, so where both ends are within kBearable of each
  // other nothing between them can be too expensive; the upper half decides first.
  size_t lowest_bearable(size_t low, size_t high) {
    if (low >= high) return high;
    if (seconds(low) <= kBearable * seconds(high)) return low;
    if (high - low == 1) return high;
    const size_t middle = (low + high) / 2, upper = lowest_bearable(middle, high);
    return upper > middle ? upper : lowest_bearable(low, middle);
  }

  double seconds(size_t rung) {
    const Plan* const plan = fastest_within(rung);
    return plan == nullptr ? 1e300 : plan->seconds;
  }

  // Quick plans are not always faster in more memory, but whatever fits less fits more.
  Plan* fastest_within(size_t rung) {
    const auto [place, added] = plans_.try_emplace(rung);
    if (added && !effort_.exhausted()) {
      place->second = quick_solve(graph_, budget_bytes(rung), effort_);
      if (!place->second && rung == 0) place->second = rebuild_each_time();
    }
    Plan* fastest = nullptr;
    for (auto& [lower, plan] : plans_) {
      if (lower <= rung && plan && (fastest == nullptr || plan->seconds < fastest->seconds)) fastest = &*plan;
    }
    return fastest;
  }

  // What the smallest budget stands for.
  std::optional<Plan> rebuild_each_time() const {
    Choices choices(graph_.values.size(), Choice::rebuild_each_time());
    Plan plan = plan_of(graph_, std::move(choices), least_bytes_, "rebuild_each_time", 0);
    return plan.peak_bytes <= least_bytes_ ? std::optional(std::move(plan)) : std::nullopt;
  }

  int64_t budget_bytes(size_t rung) const {
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(least_bytes_) * std::pow(1 + kSlightly, static_cast<double>(rung))));
  }

  const Graph& graph_;
  Effort effort_;
  int64_t least_bytes_ = 0;
  size_t top_ = 0;
  std::map<size_t, std::optional<Plan>> plans_;
};

}  // namespace

std::optional<Plan> bearable(const Graph& graph, int64_t most_effort, const std::stop_token& stop) {
  return PriceLadder(graph, most_effort, stop).lowest_bearable();
}

}  // namespace retrace::plan
