#include "plan/prices.h"

#include <algorithm>
#include <limits>

namespace retrace::plan {

Prices::Prices(const Graph& graph, const Timeline& timeline)
    : graph_(graph), timeline_(timeline), before_(timeline.events() + 1), keep_(graph.values.size()) {}

void Prices::set(const std::vector<double>& per_event) {
  double sum = 0;
  for (size_t t = 0; t < per_event.size(); ++t) before_[t + 1] = sum += per_event[t];
  for (size_t v = 0; v < keep_.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    keep_[v] = std::min(plain(id), encoded(id));
  }
}

double Prices::plain(ValueId v) const {
  double per_byte = 0;
  for (const Span& s : timeline_.spans(v)) per_byte += between(s.begin, s.end);
  return per_byte * static_cast<double>(graph_.values[static_cast<size_t>(v)].bytes);
}

double Prices::encoded(ValueId v) const {
  const Encoding& encoding = graph_.values[static_cast<size_t>(v)].encoding;
  if (encoding.bytes == 0) return std::numeric_limits<double>::infinity();
  const Span life = timeline_.whole(v);
  return between(life.begin, life.end) * static_cast<double>(encoding.bytes) + encoding.encode_seconds +
         encoding.decode_seconds;
}

}  // namespace retrace::plan
