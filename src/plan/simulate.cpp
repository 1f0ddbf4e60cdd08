#include "plan/simulate.h"

#include <algorithm>

#include "plan/machine.h"
#include "plan/near.h"

namespace retrace::plan {

struct Simulator::State {
  explicit State(const Graph& graph) : whole(graph), near(graph) {}
  Machine whole;
  Near near;
};

Simulator::Simulator(const Graph& graph) : state_(std::make_unique<State>(graph)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

Outcome Simulator::run(const Choices& choices, bool event_peaks, int64_t give_up_bytes, double give_up_seconds) {
  Machine& machine = state_->whole;
  machine.wants_event_peaks = event_peaks;
  machine.begin(choices, {.bytes = give_up_bytes, .seconds = give_up_seconds});
  machine.play(machine.graph().events.size());
  return machine.finish();
}

Outcome Simulator::run_near(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near.run(choices, {.seconds = give_up_seconds, .cost = give_up_seconds, .price = price});
}

Outcome Simulator::settle(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near.settle(choices, {.seconds = give_up_seconds, .price = price});
}

std::vector<Simulator::Live> Simulator::live_at(const Choices& choices, size_t event) {
  Machine& machine = state_->whole;
  machine.wants_event_peaks = false;
  machine.begin(choices, {});
  machine.play(event);
  return machine.live_at_next_peak();
}

double Price::excess(int64_t peak_bytes, double sum_of_excesses, size_t events) const {
  const auto most = static_cast<double>(std::max<int64_t>(0, peak_bytes - budget_bytes));
  return most + spread * sum_of_excesses / static_cast<double>(std::max<size_t>(1, events));
}

}  // namespace retrace::plan
