#include "plan/simulate/simulator.h"

#include <algorithm>
#include <optional>

#include "plan/simulate/history.h"
#include "plan/simulate/incremental_simulation.h"
#include "plan/simulate/step_simulation.h"

namespace retrace::plan {

struct Simulator::State {
  State(const Graph& graph, Effort* effort) : graph(graph), effort(effort), whole(graph, effort) {}
  // Only a search for plans needs it, and it takes as much as a whole run to set up.
  IncrementalSimulation& near() {
    if (!incremental) incremental.emplace(graph, effort);
    return *incremental;
  }

  const Graph& graph;
  Effort* const effort;
  StepSimulation whole;
  std::optional<IncrementalSimulation> incremental;
};

Simulator::Simulator(const Graph& graph, Effort* effort) : state_(std::make_unique<State>(graph, effort)) {}
Simulator::~Simulator() = default;

namespace {

Outcome run_whole(StepSimulation& simulation, const Choices& choices, History* history,
                  const StepSimulation::Limits& limits = {}) {
  if (history != nullptr) history->begin(simulation.graph().values.size(), simulation.graph().events.size());
  simulation.history = history;
  simulation.begin(choices, limits);
  simulation.run_until(simulation.graph().events.size());
  simulation.history = nullptr;
  return simulation.finish();
}

}  // namespace

Outcome Simulator::run(const Choices& choices, bool event_peaks, int64_t give_up_bytes, double give_up_seconds) {
  state_->whole.wants_event_peaks = event_peaks;
  return run_whole(state_->whole, choices, nullptr, {.bytes = give_up_bytes, .seconds = give_up_seconds});
}

Outcome Simulator::run(const Choices& choices, History& history) {
  state_->whole.wants_event_peaks = true;
  return run_whole(state_->whole, choices, &history);
}

Outcome plain(const Graph& graph, History* history) {
  StepSimulation simulation(graph, nullptr, /*is_plain=*/true);
  simulation.wants_event_peaks = true;
  return run_whole(simulation, Choices(graph.values.size()), history);
}

Outcome Simulator::run_incremental(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near().run(choices, {.seconds = give_up_seconds, .cost = give_up_seconds, .price = price});
}

Outcome Simulator::rebase(const Choices& choices, double give_up_seconds, const Price& price) {
  return state_->near().rebase(choices, {.seconds = give_up_seconds, .price = price});
}

void Simulator::forget_base() {
  if (state_->incremental) state_->incremental->forget();
}

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
