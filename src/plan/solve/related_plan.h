// A plan for one step as advice for others that are like it: other sizes, another length, another branch in the middle.
//
// Results are told apart by the operator that made them and by those that ran just before it, not by their position: a
// loop may run more often, and whatever is common before and after a difference is recognised. The advice is what the
// plan did with most of such results. It is for a step that lets go of values only when memory runs short: those that
// the plan does without go first.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "plan/graph/graph.h"

namespace retrace::plan {

// What an operator is, sizes aside.
uint64_t kind_of(uint64_t name_hash, size_t fresh_results);

// The operators that ran last.
class RecentOps {
 public:
  static constexpr size_t kMost = 6;

  void add(uint64_t kind) { kinds_[count_++ % kMost] = kind; }
  uint64_t hash(size_t of_the_last) const;

 private:
  std::array<uint64_t, kMost> kinds_{};
  size_t count_ = 0;
};

class RelatedPlan {
 public:
  enum class Advice : uint8_t { none, hold, forget };

  RelatedPlan(const Graph& graph, const Choices& choices);

  // The advice on a result of the operator that was added last: fresh results come first, then those written in place.
  Advice advice(const RecentOps& recent, size_t result) const;

 private:
  struct Votes {
    int32_t hold = 0, forget = 0;
  };
  std::unordered_map<uint64_t, Votes> votes_;  // by recent operators, as many as are known, and result
};

}  // namespace retrace::plan
