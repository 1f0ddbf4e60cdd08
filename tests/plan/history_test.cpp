// What a run tells of itself event by event adds up to what its outcome says.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "plan/simulate/history.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

TEST(History, AddsUpToTheOutcome) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph graph = synthetic_random(seed, 3 + static_cast<int>(seed % 25));
    Choices choices(graph.values.size());
    for (Choice& c : choices) c = all_choices(2)[random() % 4];
    Simulator simulator(graph);
    const Outcome without = simulator.run(choices, true);
    History history;
    const Outcome outcome = simulator.run(choices, history);

    ASSERT_EQ(outcome.event_peaks, without.event_peaks);
    ASSERT_EQ(outcome.peak_event, without.peak_event);
    ASSERT_EQ(outcome.replay_seconds, without.replay_seconds);
    ASSERT_EQ(history.owners.size(), graph.events.size());
    for (size_t e = 0; e < graph.events.size(); ++e) ASSERT_EQ(history.owners[e].total(), outcome.event_peaks[e]);
    ASSERT_EQ(history.owners[outcome.peak_event].kept, outcome.at_peak.kept);
    ASSERT_EQ(history.owners[outcome.peak_event].rebuilt, outcome.at_peak.rebuilt);
    ASSERT_DOUBLE_EQ(std::accumulate(history.replay_seconds.begin(), history.replay_seconds.end(), 0.0),
                     outcome.replay_seconds);
    ASSERT_EQ(static_cast<int64_t>(history.rebuilds.size()), outcome.ops_replayed);
    const bool any_rebuilt = std::count(history.fates.begin(), history.fates.end(), History::Fate::rebuilt) > 0;
    ASSERT_EQ(any_rebuilt, outcome.ops_replayed > 0);
  }
}

TEST(History, TellsWhatIsLiveAtAnEvent) {
  std::mt19937 random(2);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph graph = synthetic_random(seed, 3 + static_cast<int>(seed % 25));
    Choices choices(graph.values.size());
    for (Choice& c : choices) c = all_choices(2)[random() % 4];
    Simulator simulator(graph);
    History history;
    const Outcome first = simulator.run(choices, history);
    ASSERT_TRUE(history.live.empty()) << "nobody asked";
    history.live_event = first.peak_event;
    simulator.run(choices, history);
    int64_t kept = 0, rebuilt = 0, all = 0;
    for (const History::Live& live : history.live) {
      kept += live.owner == History::Owner::kept ? live.bytes : 0;
      rebuilt += live.owner == History::Owner::rebuilt ? live.bytes : 0;
      all += live.bytes;
    }
    ASSERT_EQ(kept, first.at_peak.kept);
    // What an operator works in is nobody's yet.
    ASSERT_LE(rebuilt, first.at_peak.rebuilt);
    ASSERT_LE(all, first.peak_bytes);
  }
}

}  // namespace
}  // namespace retrace::plan
