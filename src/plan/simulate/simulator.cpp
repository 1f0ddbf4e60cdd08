#include "plan/simulate/simulator.h"

#include <algorithm>

#include "plan/simulate/history.h"
#include "plan/simulate/incremental_simulation.h"
#include "plan/simulate/step_simulation.h"

namespace retrace::plan {

struct Simulator::State {
  State(const Graph& graph, Effort* effort) : whole(graph, effort), near(graph, effort) {}
  StepSimulation whole;
  IncrementalSimulation near;
};

Simulator::Simulator(const Graph& graph, Effort* effort) : state_(std::make_unique<State>(graph, effort)) {}
Simulator::~Simulator() = default;

Outcome Simulator::run(const Choices& choices, bool event_peaks, int64_t give_up_bytes, double give_up_seconds) {
  StepSimulation& simulation = state_->whole;
  simulation.wants_event_peaks = event_peaks;
  simulation.begin(choices, {.bytes = give_up_bytes, .seconds = give_up_seconds});
  simulation.run_until(simulation.graph().events.size());
  return simulation.finish();
}

Outcome Simulator::run(const Choices& choices, History& history) {
  const Graph& graph = state_->whole.graph();
  history.begin(graph.values.size(), graph.events.size());
  state_->whole.history = &history;
  Outcome outcome = run(choices, /*event_peaks=*/true);
  state_->whole.history = nullptr;
  return outcome;
}

Outcome Simulator::run_plain(History* history) {
  const Choices none(state_->whole.graph().values.size());
  state_->whole.is_plain = true;
  Outcome outcome = history != nullptr ? run(none, *history) : run(none, /*event_peaks=*/true);
  state_->whole.is_plain = false;
  return outcome;
}

Outcome Simulator::run_incremental(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near.run(choices, {.seconds = give_up_seconds, .cost = give_up_seconds, .price = price});
}

Outcome Simulator::rebase(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near.rebase(choices, {.seconds = give_up_seconds, .price = price});
}

void Simulator::forget_base() { state_->near.forget(); }

std::vector<Simulator::Live> Simulator::live_at(const Choices& choices, size_t event) {
  StepSimulation& simulation = state_->whole;
  simulation.wants_event_peaks = false;
  simulation.begin(choices, {});
  simulation.run_until(event);
  return simulation.live_at_next_peak();
}

double Price::excess(int64_t peak_bytes, double sum_of_excesses, size_t events) const {
  const auto most = static_cast<double>(std::max<int64_t>(0, peak_bytes - budget_bytes));
  return most + spread * sum_of_excesses / static_cast<double>(std::max<size_t>(1, events));
}

}  // namespace retrace::plan
