// Where a long rebuild is cut.
#include <gtest/gtest.h>

#include "policy/frontiers.h"

namespace retrace::test {

Lifetime value(int32_t made, int32_t last_read, int64_t bytes = 100) {
  return {.made = made, .last_read = last_read, .held_until = last_read, .bytes = bytes, .saved = true};
}

// Each operator reads what the one before it made; backward asks for everything.
std::vector<Lifetime> chain(int32_t operators) {
  std::vector<Lifetime> values;
  for (int32_t op = 0; op < operators; ++op) values.push_back(value(op, op + 1));
  return values;
}

TEST(Frontiers, OneSegmentTakesAllThatIsSaved) {
  const Frontiers frontiers(16, chain(16), {});
  EXPECT_EQ(frontiers.peak_bytes({}), 1600);
  EXPECT_EQ(frontiers.largest_saved_bytes({}), 1600);
}

TEST(Frontiers, ASegmentTakesWhatItSavesAndTheFrontiersBeforeIt) {
  const Frontiers frontiers(16, chain(16), {});
  EXPECT_EQ(frontiers.peak_bytes({3, 7, 11}), 700);
  EXPECT_EQ(frontiers.peak_bytes({7}), 900);
  EXPECT_EQ(frontiers.largest_saved_bytes({3, 7, 11}), 400);
}

TEST(Frontiers, AChainIsCutIntoShorterAndShorterSegments) {
  const Frontiers frontiers(15, chain(15), {});
  EXPECT_EQ(frontiers.moments().size(), 4U);  // 5, 4, 3, 2, 1
  EXPECT_EQ(frontiers.peak_bytes(frontiers.moments()), 500);
}

TEST(Frontiers, WhatIsReadOverManyMomentsIsHeldOnce) {
  std::vector<Lifetime> values = chain(15);
  values[0].last_read = values[0].held_until = 14;  // a skip from the first operator to the last
  const Frontiers frontiers(15, values, {});
  EXPECT_LE(frontiers.peak_bytes(frontiers.moments()), 600);
}

TEST(Frontiers, MomentsAreWhereLittleIsHeld) {
  // Blocks of four operators; inside a block a wide value is passed on.
  std::vector<Lifetime> values;
  for (int32_t op = 0; op < 32; ++op) values.push_back(value(op, op + 1, op % 4 == 3 ? 10 : 1000));
  const Frontiers frontiers(32, values, {});
  EXPECT_LE(frontiers.peak_bytes(frontiers.moments()), 3010 + 70);  // a block, and what lies between the others
  EXPECT_EQ(frontiers.moments().front() % 4, 3);
}

TEST(Frontiers, WhatIsMadeAgainIsNotHeldButTakesMemoryInEverySegmentThatReadsIt) {
  std::vector<Lifetime> values = chain(8);
  values.push_back({.made = 0, .last_read = 7, .held_until = 7, .bytes = 1000});
  EXPECT_EQ(Frontiers(8, values, {}).peak_bytes({3}), 1500);
  values.back().made_again = true;
  EXPECT_EQ(Frontiers(8, values, {}).peak_bytes({3}), 1500);
  values[0].held_until = 7;  // it is made from this
  EXPECT_EQ(Frontiers(8, values, {}).peak_bytes({3}), 1600);
}

TEST(Frontiers, BackwardsGradientsCount) {
  const Frontiers frontiers(4, chain(4), {{.made = 0, .read = 3, .bytes = 5000}});
  EXPECT_EQ(frontiers.peak_bytes({}), 5400);
  EXPECT_EQ(frontiers.peak_bytes({1}), 5300);
}

TEST(Frontiers, NothingIsCutThatCannotBe) {
  EXPECT_TRUE(Frontiers(1, chain(1), {}).moments().empty());
  EXPECT_TRUE(Frontiers(4, {}, {}).moments().empty());
}

}  // namespace retrace::test
