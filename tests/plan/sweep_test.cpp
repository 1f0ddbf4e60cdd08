// Sweeps, and the sets of ids by which they skip what is gone.
#include "plan/simulate/sweep.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "plan/graph/id_set.h"

namespace retrace::test::sweeping {

std::vector<int32_t> upwards(const IdSet& ids) {
  std::vector<int32_t> found;
  for (int32_t id = ids.from(0); id >= 0; id = ids.from(id + 1)) found.push_back(id);
  return found;
}

std::vector<int32_t> downwards(const IdSet& ids, int32_t end) {
  std::vector<int32_t> found;
  for (int32_t id = ids.before(end); id >= 0; id = ids.before(id)) found.push_back(id);
  return found;
}

TEST(IdSet, GivesWhatIsInItInOrderUpwardsAndDownwards) {
  IdSet ids;
  EXPECT_TRUE(upwards(ids).empty());
  EXPECT_TRUE(downwards(ids, 1000).empty());
  std::set<int32_t> expected;
  for (const int32_t id : {700, 0, 63, 64, 65, 127, 128, 300, 64}) {
    ids.insert(id);
    expected.insert(id);
  }
  for (const int32_t id : {64, 300, 301, 9999}) {
    ids.erase(id);
    expected.erase(id);
  }
  EXPECT_EQ(upwards(ids), std::vector<int32_t>(expected.begin(), expected.end()));
  EXPECT_EQ(downwards(ids, 10'000), std::vector<int32_t>(expected.rbegin(), expected.rend()));
  EXPECT_EQ(ids.from(128), 128);
  EXPECT_EQ(ids.from(129), 700);
  EXPECT_EQ(ids.before(128), 127);
  EXPECT_EQ(ids.before(64), 63);
  EXPECT_EQ(ids.before(0), -1);
  EXPECT_EQ(ids.from(701), -1);
}

TEST(IdSet, ForgetsWhatIsFoundNotToBeInItAnyMore) {
  IdSet ids;
  for (int32_t id = 0; id < 200; ++id) ids.insert(id);
  EXPECT_EQ(ids.from(10, [](int32_t id) { return id >= 150; }), 150);
  EXPECT_EQ(ids.from(10), 150);
  EXPECT_EQ(ids.from(0), 0);
}

TEST(Marks, AreGoneWhenTheNextWalkBegins) {
  Marks marks;
  marks.begin(10);
  marks.set(3);
  EXPECT_TRUE(marks.has(3));
  EXPECT_FALSE(marks.has(4));
  marks.begin(100);
  EXPECT_FALSE(marks.has(3));
  EXPECT_FALSE(marks.has(99));
}

// A step of many forwards and backwards, one after the other: each op reads the result before and makes one. What
// sweeps look at is counted.
struct ChainTape {
  struct Value {
    int32_t producer = -1, alive = 0, uses = 0;
    bool held = false;
  };
  struct Op {
    int32_t alive = 0;
    int32_t reads = -1, makes = -1;
  };

  ChainTape() { there.insert(0); }

  void record(bool is_needed) {
    const auto id = static_cast<int32_t>(ops.size());
    values.push_back({.producer = id, .alive = is_needed ? 1 : 0, .held = true});
    ops.push_back({is_needed ? 1 : 0, id, id + 1});
    left.insert(id);
    there.insert(id + 1);
  }

  Value& value(int32_t id) { return values[static_cast<size_t>(id)]; }
  const Value& value(int32_t id) const { return values[static_cast<size_t>(id)]; }
  const Op& op(int32_t id) {
    ++looks;
    return ops[static_cast<size_t>(id)];
  }
  const Op& recorded(int32_t id) const { return ops[static_cast<size_t>(id)]; }
  int32_t op_count() const { return static_cast<int32_t>(ops.size()); }
  int32_t op_from(int32_t id) const { return left.from(id); }
  int32_t op_before(int32_t id) const { return left.before(id); }
  void drop_op(int32_t id) {
    left.erase(id);
    value(id + 1).producer = -1;
  }
  int32_t value_count() const { return static_cast<int32_t>(values.size()); }
  int32_t present_from(int32_t id) {
    return there.from(id, [&](int32_t v) {
      ++looks;
      return value(v).held;
    });
  }
  bool is_held(int32_t id) const { return value(id).held; }
  static bool is_shared(int32_t) { return false; }
  bool is_living(int32_t id) const { return id == living; }
  void let_go(int32_t id) { value(id).held = false; }
  std::pair<Marks, Marks>& marks() { return marks_; }

  std::vector<Value> values{{.held = true}};
  std::vector<Op> ops;
  IdSet left, there;
  std::pair<Marks, Marks> marks_;
  int32_t living = -1;
  int64_t looks = 0;
};
void for_each_output(const ChainTape::Op& op, auto f) { f(op.makes); }
void for_each_read(const ChainTape::Op& op, auto f) { f(op.reads); }

TEST(Sweep, LooksAtWhatIsLeftNotAtAllThatTheStepHasRecorded) {
  constexpr int kBackwards = 200, kOps = 20;
  ChainTape tape;
  for (int i = 0; i < kBackwards; ++i) {
    for (int k = 0; k < kOps; ++k) tape.record(false);
    sweep::let_go_unneeded(tape);
    EXPECT_EQ(sweep::drop_lost_ops(tape), 0U);
  }
  EXPECT_LE(tape.looks, 4 * kBackwards * kOps);
}

TEST(Sweep, KeepsTheRecipeOfWhatTheProgramHas) {
  ChainTape tape;
  for (int i = 0; i < 5; ++i) tape.record(false);
  tape.living = 3;
  sweep::let_go_unneeded(tape);
  EXPECT_EQ(upwards(tape.left), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(tape.value(0).held);
}

TEST(Sweep, MakesARootOfWhatALoopGoesOnFrom) {
  constexpr int kBackwards = 1000, kOps = 20;
  ChainTape tape;
  for (int i = 0; i < kBackwards; ++i) {
    for (int k = 0; k < kOps; ++k) tape.record(false);
    tape.living = tape.value_count() - 1;
    sweep::let_go_unneeded(tape);
    EXPECT_LE(sweep::drop_lost_ops(tape), sweep::kMostForLiving);
  }
  EXPECT_LT(upwards(tape.left).size(), sweep::kMostForLiving);
  EXPECT_FALSE(tape.value(0).held) << "nobody needs the first any more";
}

TEST(Sweep, KeepsWhatSomethingAliveReads) {
  ChainTape tape;
  for (const bool is_needed : {false, false, true, false}) tape.record(is_needed);
  sweep::let_go_unneeded(tape);
  EXPECT_EQ(upwards(tape.left), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(tape.value(2).held);   // what the op that is needed reads
  EXPECT_TRUE(tape.value(3).held);   // and what it makes
  EXPECT_FALSE(tape.value(4).held);  // which nobody needs
}

}  // namespace retrace::test::sweeping
