#include "plan/solve/candidate.h"

#include <algorithm>
#include <utility>

namespace retrace::plan {

bool is_better(const Candidate& a, const Candidate& b, int64_t budget_bytes) {
  if (a.fits(budget_bytes) != b.fits(budget_bytes)) return a.fits(budget_bytes);
  return a.fits(budget_bytes) ? a.seconds < b.seconds : a.peak_bytes < b.peak_bytes;
}

void Front::add(const Choices& choices, int64_t peak_bytes, double seconds) {
  const auto beats_it = [&](const Candidate& c) { return c.peak_bytes <= peak_bytes && c.seconds <= seconds; };
  if (std::any_of(candidates_.begin(), candidates_.end(), beats_it)) return;
  std::erase_if(candidates_, [&](const Candidate& c) { return peak_bytes <= c.peak_bytes && seconds <= c.seconds; });
  candidates_.push_back({choices, peak_bytes, seconds});
}

void Front::merge(Front&& other) {
  if (candidates_.empty()) std::swap(candidates_, other.candidates_);
  for (const Candidate& c : other.candidates_) add(c.choices, c.peak_bytes, c.seconds);
}

Candidate Front::best(int64_t budget_bytes) const {
  const Candidate* best = nullptr;
  for (const Candidate& c : candidates_) {
    if (c.fits(budget_bytes) && (best == nullptr || c.seconds < best->seconds)) best = &c;
  }
  return best == nullptr ? Candidate{} : *best;
}

}  // namespace retrace::plan
