#include "plan/solve/headroom_tree.h"

#include <algorithm>

namespace retrace::plan {

void HeadroomTree::reset(const std::vector<int64_t>& headroom) {
  size_ = 1;
  while (static_cast<size_t>(size_) < headroom.size()) size_ *= 2;
  const auto size = static_cast<size_t>(size_);
  least_.assign(2 * size, INT64_MAX / 4);
  added_.assign(2 * size, 0);
  std::copy(headroom.begin(), headroom.end(), least_.begin() + size_);
  for (size_t i = size - 1; i > 0; --i) least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
}

int64_t HeadroomTree::least(size_t node, int32_t low, int32_t high, int32_t begin, int32_t end) const {
  if (begin >= high || end <= low) return INT64_MAX / 4;
  if (begin <= low && high <= end) return least_[node];
  const int32_t middle = (low + high) / 2;
  return added_[node] +
         std::min(least(2 * node, low, middle, begin, end), least(2 * node + 1, middle, high, begin, end));
}

void HeadroomTree::add(size_t node, int32_t low, int32_t high, int32_t begin, int32_t end, int64_t bytes) {
  if (begin >= high || end <= low) return;
  if (begin <= low && high <= end) {
    least_[node] += bytes;
    added_[node] += bytes;
    return;
  }
  const int32_t middle = (low + high) / 2;
  add(2 * node, low, middle, begin, end, bytes);
  add(2 * node + 1, middle, high, begin, end, bytes);
  least_[node] = added_[node] + std::min(least_[2 * node], least_[2 * node + 1]);
}

}  // namespace retrace::plan
