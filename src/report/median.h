// The median, for whoever times something more than once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace retrace {

// NaN if there are no values.
inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace retrace
