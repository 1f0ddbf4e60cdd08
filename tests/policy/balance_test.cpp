// No policy takes more than the plain program: what is held in vain is given up.
#include <gtest/gtest.h>

#include <set>

#include "policy/balance.h"

namespace retrace::test::balance_of {

// Values that the tape alone has, made by ops of the same numbers.
class View final : public TapeView {
 public:
  std::vector<Value> values;
  OpId at = -1;
  std::set<ValueId> shared;  // with the program

  ValueId add(int64_t bytes, bool saved, bool held, OpId last_read_by) {
    Value v;
    v.producer = v.recorded_at = static_cast<OpId>(values.size());
    v.bytes = bytes;
    v.handles = saved ? 1 : 0;
    v.held = held;
    v.holders = held ? 1 : 0;
    v.last_read_by = last_read_by;
    values.push_back(v);
    return v.producer;
  }

  Value value(ValueId id) const override { return values[static_cast<size_t>(id)]; }
  ValueId next_value() const { return static_cast<ValueId>(values.size()); }
  ValueId present_from(ValueId id) override {
    while (id < next_value() && !value(id).held && !value(id).rebuilt) ++id;
    return id < next_value() ? id : -1;
  }
  std::vector<ValueId> saved() const override {
    std::vector<ValueId> ids;
    for (ValueId id = 0; id < next_value(); ++id) {
      if (value(id).handles > 0) ids.push_back(id);
    }
    return ids;
  }
  bool is_shared(ValueId id) const override { return shared.count(id) > 0; }
  bool is_elsewhere(ValueId) const override { return false; }
  OpId next_op() const override { return next_value(); }
  OpId backward_at() const override { return at; }
  OpId op_from(OpId id) const override { return id < next_op() ? id : -1; }
  OpId op_before(OpId id) const override { return id - 1; }
  bool is_alive(OpId) const override { return false; }
  bool is_pending(OpId) const override { return false; }
  std::vector<Arg> args(OpId) const override { return {}; }
  std::vector<ValueId> results(OpId id) const override { return {id}; }
  void begin_walk() override {}
  bool was_at_op(OpId) override { return false; }
  bool was_at_value(ValueId) override { return false; }
  void hold(ValueId id) override { values[static_cast<size_t>(id)].held = true; }
  bool hold_at_hand(ValueId) override { return false; }
  bool hold_given(ValueId) override { return false; }
  void let_go(ValueId id) override { values[static_cast<size_t>(id)].held = false; }
  void give_up(ValueId id) override { let_go(id); }
  bool may_have_idle() const override { return false; }
  bool let_go_idle() override { return false; }
  void let_go_roots() override {}
};

TEST(Balance, WhatIsHeldPaysWhileMoreThanThatIsForgotten) {
  View tape;
  const auto held = tape.add(100, false, true, 1);
  tape.add(150, true, false, -1);
  std::vector<TapeView::ValueId> all{held};
  EXPECT_EQ(balance(tape, all).slack_bytes, 50);
  EXPECT_TRUE(tape.value(held).held);
}

TEST(Balance, WhatDoesNotPayIsGivenUp) {
  View tape;
  const auto held = tape.add(100, false, true, 1);
  tape.add(80, true, false, -1);
  std::vector<TapeView::ValueId> all{held};
  EXPECT_EQ(balance(tape, all).slack_bytes, 80);
  EXPECT_FALSE(tape.value(held).held);
}

TEST(Balance, WhatIsRebuiltAndWasNotSavedCountsAsMore) {
  View tape;
  const auto held = tape.add(100, false, true, 1);
  tape.add(150, true, false, -1);
  tape.values[static_cast<size_t>(tape.add(60, false, false, 1))].rebuilt = true;
  std::vector<TapeView::ValueId> all{held};
  balance(tape, all);
  EXPECT_FALSE(tape.value(held).held);
}

TEST(Balance, InBackwardOnlyWhatItHasNotComeToIsGivenUp) {
  View tape;
  const auto later = tape.add(100, false, true, 3), now = tape.add(100, false, true, 9);
  std::vector<TapeView::ValueId> all{now, later};
  tape.at = 8;
  balance(tape, all);
  EXPECT_FALSE(tape.value(later).held);
  EXPECT_TRUE(tape.value(now).held) << "it would have to be rebuilt at once";
}

TEST(Balance, OfEquallyLargeOnesTheFirstIsGivenUp) {
  View tape;
  const auto first = tape.add(100, false, true, 2), second = tape.add(100, false, true, 2);
  tape.add(110, true, false, -1);
  std::vector<TapeView::ValueId> all{second, first};
  EXPECT_EQ(balance(tape, all).slack_bytes, 10);
  EXPECT_FALSE(tape.value(first).held);
  EXPECT_TRUE(tape.value(second).held);
}

// Else nobody would look again when the program lets go of it: to do so is no event.
TEST(Balance, WhatTheProgramHasTooMayBeHeldInVainLater) {
  View tape;
  const auto kept = tape.add(100, false, true, 1), input = tape.add(30, false, true, 1);
  tape.values[static_cast<size_t>(input)].external = true;
  tape.shared = {kept, input};
  std::vector<TapeView::ValueId> all{kept, input};
  EXPECT_EQ(balance(tape, all).shared, std::vector{kept});
  EXPECT_TRUE(tape.value(kept).held);
  tape.shared.clear();
  balance(tape, all);
  EXPECT_FALSE(tape.value(kept).held);
}

// To look takes a walk over the tape: once per allocation would take the square of its length.

TEST(SinceBalance, WhatIsSavedOrLetGoOfMeanwhileNeedsNoLook) {
  View tape;
  const auto saved = tape.add(100, false, true, 1), gone = tape.add(100, false, true, 1);
  SinceBalance since;
  since.held(tape, saved);
  since.held(tape, gone);
  EXPECT_TRUE(since.is_out_of_balance(tape));
  since.looked(tape, {});
  since.held(tape, saved);
  since.held(tape, gone);
  tape.values[static_cast<size_t>(saved)].handles = 1;
  tape.let_go(gone);
  EXPECT_FALSE(since.is_out_of_balance(tape));
  EXPECT_FALSE(since.may_be_out_of_balance());
}

TEST(SinceBalance, WhatTheProgramHasNeedsNoLookUntilItLetsGo) {
  View tape;
  const auto product = tape.add(100, false, true, 1), input = tape.add(30, false, true, 1);
  tape.values[static_cast<size_t>(input)].external = true;
  for (const auto still_shared : {product, input}) {
    tape.shared = {product, input};
    SinceBalance since;
    since.looked(tape, {0, {product}});
    since.held(tape, input);
    EXPECT_TRUE(since.may_be_out_of_balance());
    EXPECT_FALSE(since.is_out_of_balance(tape));
    tape.shared = {still_shared};
    EXPECT_TRUE(since.is_out_of_balance(tape));
  }
}

TEST(SinceBalance, OnlyMoreThanTheSlackNeedsALook) {
  View tape;
  const auto held = tape.add(100, false, true, 1), dropped = tape.add(20, false, false, 1);
  SinceBalance since;
  since.looked(tape, {110, {}});
  since.held(tape, held);
  EXPECT_FALSE(since.is_out_of_balance(tape));
  since.dropped(tape, dropped);
  EXPECT_TRUE(since.is_out_of_balance(tape)) << "it is no longer forgotten";
}

TEST(SinceBalance, OfWhatIsSavedOnlyThatItIsRebuiltNeedsALook) {
  View tape;
  const auto saved = tape.add(100, true, true, 1);
  SinceBalance since;
  since.held(tape, saved);
  EXPECT_FALSE(since.is_out_of_balance(tape));
  since.rebuilt(tape, saved);
  EXPECT_TRUE(since.is_out_of_balance(tape));
}

}  // namespace retrace::test::balance_of
