#include "plan/solve/related_plan.h"

namespace retrace::plan {
namespace {

// The longest history that was seen before tells most.
constexpr size_t kHistories[] = {RecentOps::kMost, 3, 2, 1};

}  // namespace

uint64_t kind_of(uint64_t name_hash, size_t fresh_results) { return mixed(name_hash, fresh_results); }

uint64_t RecentOps::hash(size_t of_the_last) const {
  uint64_t hash = of_the_last;
  for (size_t i = 1; i <= of_the_last; ++i) hash = mixed(hash, i <= count_ ? kinds_[(count_ - i) % kMost] : 0);
  return hash;
}

RelatedPlan::RelatedPlan(const Graph& graph, const Choices& choices) {
  RecentOps recent;
  for (const Op& op : graph.ops) {
    recent.add(kind_of(name_hash(op.name), op.fresh.size()));
    size_t result = 0;
    for_each_output(op, [&](ValueId value) {
      const bool holds = choices[at(value)].holds();
      for (const size_t history : kHistories) {
        Votes& votes = votes_[mixed(recent.hash(history), result)];
        ++(holds ? votes.hold : votes.forget);
      }
      ++result;
    });
  }
}

RelatedPlan::Advice RelatedPlan::advice(const RecentOps& recent, size_t result) const {
  for (const size_t history : kHistories) {
    const auto found = votes_.find(mixed(recent.hash(history), result));
    if (found == votes_.end()) continue;
    return found->second.hold > found->second.forget ? Advice::hold : Advice::forget;
  }
  return Advice::none;
}

}  // namespace retrace::plan
