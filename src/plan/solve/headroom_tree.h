// How many bytes are left at every event, with ranges lowered and asked for in logarithmic time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retrace::plan {

class HeadroomTree {
 public:
  // `headroom` per event; may be negative where the budget is broken.
  void reset(const std::vector<int64_t>& headroom);

  int64_t least(int32_t begin, int32_t end) const { return least(1, 0, size_, begin, end); }
  int64_t least() const { return least_[1]; }
  void add(int32_t begin, int32_t end, int64_t bytes) { add(1, 0, size_, begin, end, bytes); }

 private:
  int64_t least(size_t node, int32_t low, int32_t high, int32_t begin, int32_t end) const;
  void add(size_t node, int32_t low, int32_t high, int32_t begin, int32_t end, int64_t bytes);

  int32_t size_ = 1;            // a power of two
  std::vector<int64_t> least_;  // by node: the least in its subtree, without what was added to nodes above
  std::vector<int64_t> added_;  // by node: what was added to its whole subtree
};

}  // namespace retrace::plan
