#include "report/curve_points.h"

#include <algorithm>

namespace retrace::report {

std::vector<CurvePoint> curve_points(const StepTimes& times, const plan::History& history, size_t buckets) {
  const size_t events = history.owners.size();
  const auto total = [&](size_t e) { return history.owners[e].total(); };
  const auto bucket = [&](size_t e) {
    const double share = times.end() > 0 ? times.begin(e) / times.end() : 0;
    return std::min(buckets - 1, static_cast<size_t>(share * static_cast<double>(buckets)));
  };
  std::vector<CurvePoint> points;
  const auto add = [&](size_t e) { points.push_back({times.begin(e), e, history.owners[e]}); };
  if (events <= 3 * buckets) {
    for (size_t e = 0; e < events; ++e) add(e);
    return points;
  }
  for (size_t begin = 0, end = 0; begin < events; begin = end) {
    size_t low = begin, high = begin;
    for (end = begin; end < events && bucket(end) == bucket(begin); ++end) {
      if (total(end) < total(low)) low = end;
      if (total(end) > total(high)) high = end;
    }
    size_t chosen[] = {low, high, end - 1, begin == 0 ? 0 : low};
    std::sort(std::begin(chosen), std::end(chosen));
    for (size_t i = 0; i < std::size(chosen); ++i) {
      if (i == 0 || chosen[i] != chosen[i - 1]) add(chosen[i]);
    }
  }
  return points;
}

}  // namespace retrace::report
