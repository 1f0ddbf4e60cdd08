// A run that begins where forward ended says what a whole run says.
#include <gtest/gtest.h>

#include <random>

#include "plan/simulate.h"
#include "plan/synthetic.h"

namespace retrace::plan {
namespace {

void expect_the_same(const Graph& graph, std::mt19937& random, int changes) {
  const double limit = 5 * graph.seconds;
  Simulator whole(graph), near(graph);
  Choices choices(graph.values.size());
  for (Choice& c : choices) c = static_cast<Choice>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    // A few of them, sometimes with encodings, with which forward is run again.
    for (auto n = random() % 4 + 1; n > 0; --n)
      choices[random() % choices.size()] = static_cast<Choice>(random() % (i % 3 == 0 ? 4 : 3));
    const Outcome a = whole.run(choices, true, INT64_MAX, limit), b = near.run_near(choices, limit);
    ASSERT_EQ(a.replay_seconds > limit, b.replay_seconds > limit);
    if (a.replay_seconds > limit) continue;
    ASSERT_EQ(a.replay_seconds, b.replay_seconds);
    ASSERT_EQ(a.event_peaks, b.event_peaks);
    ASSERT_EQ(a.peak_bytes, b.peak_bytes);
    ASSERT_EQ(a.peak_event, b.peak_event);
  }
}

TEST(Near, SaysTheSameOnThousandsOfRandomGraphs) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 1500; ++seed)
    expect_the_same(synthetic_random(seed, 3 + static_cast<int>(seed % 25)), random, 20);
}

TEST(Near, SaysTheSameOnATransformerAndAResnet) {
  std::mt19937 random(2);
  expect_the_same(synthetic_transformer(2), random, 200);
  expect_the_same(synthetic_resnet(2), random, 200);
}

}  // namespace
}  // namespace retrace::plan
