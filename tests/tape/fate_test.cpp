#include "tape/fate.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <retrace/policy.h>

#include "policy/rules.h"

namespace retrace::test::fate {

struct Fates : ::testing::Test {
  Tape tape{false, nullptr};
  const at::Tensor input = at::ones({4}), result = at::ones({4});
  const ValueId root = tape.value_of(input);
  const ValueId made = tape.add_fresh(result, /*producer=*/0);
};

TEST_F(Fates, WhatHasNoRecipeIsHeldByWhoeverNeedsIt) {
  EXPECT_EQ(fate_of(tape, root), Fate::root);
  EXPECT_TRUE(is_held_when_read(fate_of(tape, root)));
  EXPECT_TRUE(is_held_when_saved(fate_of(tape, root)));
}

TEST_F(Fates, WhatNobodyWantsKeptIsRebuilt) {
  note_wish(tape, made, 0, /*policy_keeps=*/false);
  EXPECT_EQ(fate_of(tape, made), Fate::rebuild);
  EXPECT_FALSE(is_held_when_saved(fate_of(tape, made)));
}

TEST_F(Fates, WhatThePolicyKeepsIsHeldUntilTheWishIsTakenBack) {
  note_wish(tape, made, 0, /*policy_keeps=*/true);
  EXPECT_EQ(fate_of(tape, made), Fate::keep);
  EXPECT_TRUE(is_held_when_read(fate_of(tape, made)));
  tape.value(made).keep = false;
  EXPECT_EQ(fate_of(tape, made), Fate::rebuild);
}

TEST_F(Fates, ALaterContentOfAKeptStorageIsKeptToo) {
  note_wish(tape, made, 0, /*policy_keeps=*/true);
  const ValueId later = tape.add_written(result, /*producer=*/1);
  note_wish(tape, later, 0, /*policy_keeps=*/false);
  EXPECT_EQ(fate_of(tape, later), Fate::keep);
}

TEST_F(Fates, WhatIsSavedStaysWhereAScopeMayNotDropOrPartOfItIsNotWritten) {
  EXPECT_EQ(fate_when_saved(tape, made, /*scope_may_drop=*/true), Fate::rebuild);
  EXPECT_EQ(fate_when_saved(tape, made, /*scope_may_drop=*/false), Fate::root);
  tape.value(made).unwritten = true;
  EXPECT_EQ(fate_when_saved(tape, made, /*scope_may_drop=*/true), Fate::root);
  EXPECT_EQ(fate_of(tape, made), Fate::rebuild) << "a replay that passes through it need not hold it";
}

TEST_F(Fates, WhatLosesItsRecipeBecomesARoot) {
  tape.make_root(made);
  EXPECT_EQ(fate_of(tape, made), Fate::root);
}

TEST(Fate, WithoutABudgetThePolicySaysWhetherAScopeForgets) {
  EXPECT_TRUE(may_drop(recompute_all().rules(), nullptr));
  EXPECT_FALSE(may_drop(keep_all().rules(), nullptr));
}

}  // namespace retrace::test::fate
