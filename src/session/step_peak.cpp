#include "session/step_peak.h"

#include <algorithm>
#include <vector>

#include "memory/allocator.h"

namespace retrace {

StepStart StepStart::now() {
  const memory::Bytes live = memory::live();
  const int64_t gradients = live[memory::Owner::gradients];
  return {live.total() - gradients, gradients};
}

StepPeak StepPeak::of(const plan::Graph& graph, const plan::Outcome& outcome, const StepStart& start) {
  StepPeak peak;
  peak.start = start;
  peak.bytes = outcome.peak_bytes;
  // What is released is the last content of a storage, what was made the first.
  std::vector<char> released(graph.values.size());
  const auto storage_of = [&](plan::ValueId v) {
    return static_cast<size_t>(graph.values[static_cast<size_t>(v)].storage);
  };
  for (const plan::Event& event : graph.events) {
    if (event.kind == plan::EventKind::release) released[storage_of(event.id)] = 1;
  }
  int64_t made = 0;
  for (size_t e = 0; e < outcome.event_peaks.size(); ++e) {
    const plan::Event& event = graph.events[e];
    if (event.kind == plan::EventKind::op) {
      for (const plan::ValueId v : graph.ops[static_cast<size_t>(event.id)].fresh) {
        if (released[storage_of(v)] == 0) made += graph.values[static_cast<size_t>(v)].bytes;
      }
    }
    const int64_t rest = outcome.event_peaks[e] - made;
    peak.without_made = std::max(peak.without_made, rest);
    peak.without_gradients = std::max(peak.without_gradients, rest - event.gradient_bytes);
  }
  return peak;
}

int64_t StepPeak::starting_with(const StepStart& other, int64_t staying_gradient_bytes) const {
  const int64_t more = other.bytes - start.bytes;
  // Gradients that were there before the first step were not known as such then.
  if (more < 0) return bytes + std::max(more, more + other.gradient_bytes - start.gradient_bytes);
  int64_t peak = std::max(bytes, without_made + more);
  if (staying_gradient_bytes > start.gradient_bytes)
    peak = std::max(peak, without_gradients + more + staying_gradient_bytes);
  return peak;
}

void StepPeak::shift(int64_t by_bytes) {
  bytes += by_bytes;
  without_made += by_bytes;
  without_gradients += by_bytes;
}

}  // namespace retrace
