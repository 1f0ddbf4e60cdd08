#include "policy/near_names.h"

#include <gtest/gtest.h>

namespace retrace {
namespace {

TEST(NearNames, AnEditIsOneLetterOrTwoSwappedOnes) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(edit_distance("aten::mm", "aten::bmm"), 1U);
  EXPECT_EQ(edit_distance("greedy", "gredey"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);
  EXPECT_EQ(edit_distance("abcdef", "badcfe"), 3U);
}

TEST(NearNames, TheNearestComeFirstAndOnce) {
  EXPECT_EQ(nearest_names("mm", {"bmm", "mm", "relu", "bmm", "addmm"}, 2), (std::vector<std::string>{"mm", "bmm"}));
}

}  // namespace
}  // namespace retrace
