// Choices that were simulated, and those of them that are worth remembering.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

// Choices and what the simulator says of them.
struct Candidate {
  Choices choices;
  int64_t peak_bytes = INT64_MAX;
  double seconds = 1e300;  // of replay

  bool fits(int64_t budget_bytes) const { return peak_bytes <= budget_bytes; }
};

// Whether `a` is better: it fits and is faster; or neither fits, and its peak is lower.
bool is_better(const Candidate& a, const Candidate& b, int64_t budget_bytes);

// Of all candidates that were added, those that no other one beats both in peak and in seconds.
class Front {
 public:
  void add(const Choices& choices, int64_t peak_bytes, double seconds);
  void merge(Front&& other);

  const std::vector<Candidate>& candidates() const { return candidates_; }
  Candidate best(int64_t budget_bytes) const;  // the fastest that fits; without choices if none does

 private:
  std::vector<Candidate> candidates_;
};

}  // namespace retrace::plan
