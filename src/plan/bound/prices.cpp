#include "plan/bound/prices.h"

namespace retrace::plan {

Prices::Prices(const Graph& graph, const Lifetimes& lifetimes)
    : graph_(graph),
      lifetimes_(lifetimes),
      before_(lifetimes.events() + 1),
      keep_(graph.values.size()),
      best_way_(keep_.size()) {}

void Prices::set(const std::vector<double>& per_event) {
  double sum = 0;
  for (size_t t = 0; t < per_event.size(); ++t) before_[t + 1] = sum += per_event[t];
  for (size_t v = 0; v < keep_.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    keep_[v] = of(id, kAsItIs);
    best_way_[v] = kAsItIs;
    for (int way = 1; way < graph_.values[v].way_count(); ++way) {
      const double price = of(id, way);
      if (price >= keep_[v]) continue;
      keep_[v] = price;
      best_way_[v] = way;
    }
  }
}

double Prices::of(ValueId v, int way) const {
  double per_byte = 0;
  for (const Span& s : lifetimes_.spans(v, way)) per_byte += between(s.begin, s.end);
  const Value& value = graph_.values[at(v)];
  return per_byte * static_cast<double>(value.bytes_in(way)) + value.seconds_in(way);
}

}  // namespace retrace::plan
