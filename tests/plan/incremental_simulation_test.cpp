// A run of only what a change touches says what a whole run says.
#include <gtest/gtest.h>

#include <random>

#include "plan/simulate/simulator.h"
#include "synthetic/graphs.h"

namespace retrace::plan {
namespace {

// Not every value has a way 1.
Choice any_choice(std::mt19937& random) { return all_choices(2)[random() % 4]; }

void expect_the_same(const Graph& graph, std::mt19937& random, int changes) {
  const double limit = 5 * graph.seconds;
  Simulator whole(graph), near(graph);
  Choices choices(graph.values.size());
  for (Choice& c : choices) c = any_choice(random);
  for (int i = 0; i < changes; ++i) {
    for (auto n = random() % 4 + 1; n > 0; --n) choices[random() % choices.size()] = any_choice(random);
    const Outcome a = whole.run(choices, true, INT64_MAX, limit),
                  b = i % 4 == 0 ? near.rebase(choices, limit) : near.run_incremental(choices, limit);
    ASSERT_EQ(a.replay_seconds > limit, b.replay_seconds > limit);
    if (a.replay_seconds > limit) continue;
    ASSERT_EQ(a.replay_seconds, b.replay_seconds);
    ASSERT_EQ(a.event_peaks, b.event_peaks);
    ASSERT_EQ(a.peak_bytes, b.peak_bytes);
    ASSERT_EQ(a.peak_event, b.peak_event);
  }
}

TEST(IncrementalSimulation, SaysTheSameOnThousandsOfRandomGraphs) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 1500; ++seed)
    expect_the_same(synthetic_random(seed, 3 + static_cast<int>(seed % 25)), random, 20);
}

TEST(IncrementalSimulation, GivesUpOnlyWhatIsTooDearAndThenSaysSo) {
  std::mt19937 random(3);
  int gave_up = 0, went_on = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph graph = synthetic_random(seed, 3 + static_cast<int>(seed % 25));
    Simulator whole(graph), near(graph);
    Choices choices(graph.values.size());
    for (Choice& c : choices) c = any_choice(random);
    const int64_t budget = whole.run(choices).peak_bytes * 9 / 10;
    const Price price{budget, graph.seconds / static_cast<double>(budget), 10};
    for (int i = 0; i < 20; ++i) {
      choices[random() % choices.size()] = any_choice(random);
      const Outcome a = whole.run(choices, true);
      double over = 0;
      for (const int64_t peak : a.event_peaks) over += static_cast<double>(std::max<int64_t>(0, peak - budget));
      const double cost = a.replay_seconds + price.per_byte * price.excess(a.peak_bytes, over, a.event_peaks.size());
      const double limit = cost * (random() % 2 == 0 ? 0.7 : 1.01);
      const Outcome b = i % 4 == 0 ? near.rebase(choices, limit, price) : near.run_incremental(choices, limit, price);
      ASSERT_TRUE(!b.gave_up || cost > limit);
      (b.gave_up ? gave_up : went_on)++;
      if (b.gave_up) continue;
      ASSERT_EQ(a.replay_seconds, b.replay_seconds);
      ASSERT_EQ(a.event_peaks, b.event_peaks);
    }
  }
  EXPECT_GT(gave_up, 1000);
  EXPECT_GT(went_on, 1000);
}

TEST(IncrementalSimulation, SaysTheSameOnATransformerAndAResnet) {
  std::mt19937 random(2);
  expect_the_same(synthetic_transformer(2), random, 200);
  expect_the_same(synthetic_resnet(2), random, 200);
  expect_the_same(synthetic_transformer(12), random, 200);
}

}  // namespace
}  // namespace retrace::plan
