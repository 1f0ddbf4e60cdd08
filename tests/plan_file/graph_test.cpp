// check() and keepable().
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include <retrace/errors.h>

#include "plan/graph/graph.h"
#include "plan_file/example.h"

namespace retrace::plan::graph_test {
namespace {

using file_test::example;
using file_test::value;

void expect_refused(const std::function<void(Graph&)>& spoil, const std::string& why) {
  Graph g = example();
  spoil(g);
  try {
    check(g);
    ADD_FAILURE() << "accepted, though: " << why;
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("[check] ")) << what;
    EXPECT_NE(what.find(why), std::string::npos) << what;
  }
}

TEST(Check, AnEmptyGraphIsAGraph) { EXPECT_NO_THROW(check(Graph{})); }

TEST(Check, WhatCanHappenIsAccepted) {
  EXPECT_NO_THROW(check(example()));
  for (uint32_t seed = 0; seed < 50; ++seed) EXPECT_NO_THROW(check(file_test::random_graph(seed, 60)));
}

TEST(Check, IdsAreInRange) {
  expect_refused([](Graph& g) { g.ops[0].args[0].value = 2; }, "op 0 'aten::sin': refers to value 2 of 2");
  expect_refused([](Graph& g) { g.ops[0].args[0].value = kNone; }, "refers to value -1");
  expect_refused([](Graph& g) { g.ops[0].args[0].becomes = 7; }, "refers to value 7");
  expect_refused([](Graph& g) { g.ops[0].fresh[0] = -5; }, "refers to value -5");
  expect_refused([](Graph& g) { g.values[1].producer = 1; }, "value 1: refers to op 1 of 1");
  expect_refused([](Graph& g) { g.values[1].storage = 1 << 30; }, "is in storage");
  expect_refused([](Graph& g) { g.values[1].storage = -2; }, "is in storage");
  expect_refused([](Graph& g) { g.handles[0] = 2; }, "handle 0: refers to value 2");
  expect_refused([](Graph& g) { g.events[1].id = 1; }, "event 1: refers to op 1");
  expect_refused([](Graph& g) { g.events[0].id = 1; }, "event 0: refers to handle 1");
  expect_refused([](Graph& g) { g.events[4] = {EventKind::release, 2}; }, "refers to value 2");
  expect_refused([](Graph& g) { g.events[4].id = 1; }, "ends the step with id 1");
  expect_refused([](Graph& g) { g.events[4].kind = static_cast<EventKind>(6); }, "unknown kind 6");
}

TEST(Check, AmountsAreFiniteAndNotNegative) {
  for (const double bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    expect_refused([&](Graph& g) { g.seconds = bad; }, "graph: seconds is");
    expect_refused([&](Graph& g) { g.ops[0].seconds = bad; }, "op 0 'aten::sin': seconds is");
    expect_refused([&](Graph& g) { g.ops[0].shortcut_seconds = bad; }, "op 0 'aten::sin': shortcut_seconds is");
    expect_refused([&](Graph& g) { g.values[1].ways[0].store_seconds = bad; }, "store_seconds is");
    expect_refused([&](Graph& g) { g.values[1].ways[0].load_seconds = bad; }, "load_seconds is");
  }
  for (const int64_t bad : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
    expect_refused([&](Graph& g) { g.start_bytes = bad; }, "start_bytes is");
    expect_refused([&](Graph& g) { g.weight_bytes = bad; }, "weight_bytes is");
    expect_refused([&](Graph& g) { g.values[0].bytes = bad; }, "value 0: bytes is");
    expect_refused([&](Graph& g) { g.values[1].ways[0].bytes = bad; }, "bytes held in a way is");
    expect_refused([&](Graph& g) { g.ops[0].working_bytes = bad; }, "working_bytes is");
    expect_refused([&](Graph& g) { g.events[2].other_bytes = bad; }, "event 2: other_bytes is");
    expect_refused([&](Graph& g) { g.events[2].other_peak = bad; }, "other_peak is");
    expect_refused([&](Graph& g) { g.events[2].gradient_bytes = bad; }, "gradient_bytes is");
  }
  expect_refused([](Graph& g) { g.values[0].bytes = g.values[1].bytes = int64_t{3} << 58; }, "all values above 2^60");
  expect_refused([](Graph& g) { g.values[1].ways[0].bytes = 17; }, "larger held as 'bits'");
}

TEST(Check, WhatIsForPeopleIsShortAndInOrder) {
  const std::string long_name(256, 'x');
  expect_refused([&](Graph& g) { g.ops[0].name = long_name; }, "name of 256 bytes");
  expect_refused([&](Graph& g) { g.ops[0].module = long_name; }, "name of 256 bytes");
  expect_refused([&](Graph& g) { g.values[0].name = long_name; }, "value 0: has a name of 256 bytes");
  expect_refused([&](Graph& g) { g.values[1].ways[0].kind = long_name; }, "name of 256 bytes");
  expect_refused([&](Graph& g) { g.backward_ops[0].name = long_name; }, "backward op 0: has a name of 256 bytes");
  expect_refused([](Graph& g) { g.ops[0].outputs[0].dtype = "a type of sixteen"; }, "longer than 15 bytes");
  expect_refused([](Graph& g) { g.ops[0].outputs[0].shape[1] = -1; }, "a size of a result is -1");
  expect_refused([](Graph& g) { g.backward_ops[0].seconds = -1; }, "backward op 0: seconds is");
  expect_refused([](Graph& g) { g.backward_ops[0].after_event = 5; }, "out of order");
  expect_refused([](Graph& g) { g.backward_ops.push_back({"aten::mm", 0, 1}); }, "out of order");
  expect_refused([](Graph& g) { g.values[1].ways.resize(65); }, "65 ways");
}

TEST(Check, AnOpReadsOnlyWhatWasMadeBeforeIt) {
  expect_refused([](Graph& g) { g.ops[0].args[0].value = 1; }, "reads value 1 before it is made");
  expect_refused(
      [](Graph& g) {
        g.events.erase(g.events.begin() + 1);
        g.handles[0] = 1;
      },
      "before op 0 has made it");
}

TEST(Check, AValueHasOneMaker) {
  const auto makes_nothing = [](Graph& g) {
    g.ops[0].fresh.clear();
    g.ops[0].shortcut_seconds = 0;
  };
  expect_refused(makes_nothing, "which does not make it");
  expect_refused([](Graph& g) { g.ops[0].fresh.clear(); }, "has a shortcut to a result it does not make");
  expect_refused([](Graph& g) { g.ops.push_back(g.ops[0]); }, "makes value 1, as op 0 does");
  expect_refused([](Graph& g) { g.ops[0].fresh = {1, 1}; }, "begins storage 1 twice");
  expect_refused([](Graph& g) { g.values[1].storage = kNone; }, "which is in no storage");
}

TEST(Check, ARootMayBeListedAsAResult) {
  Graph g = example();
  g.values[1].producer = kNone;
  EXPECT_NO_THROW(check(g));
}

TEST(Check, EventsComeInAnOrderThatCanHappen) {
  expect_refused([](Graph& g) { g.events[2] = g.events[1]; }, "runs op 0 again");
  expect_refused([](Graph& g) { g.events[2] = g.events[0]; }, "saves handle 0 twice");
  expect_refused([](Graph& g) { g.events[4] = g.events[3]; }, "after it was dropped");
  expect_refused([](Graph& g) { std::swap(g.events[2], g.events[3]); }, "unpacks handle 0 after it was dropped");
  expect_refused([](Graph& g) { g.events.erase(g.events.begin()); }, "unpacks handle 0 before it is saved");
  expect_refused([](Graph& g) { g.events[0] = {EventKind::release, 1}; }, "before op 0 has made it");
  expect_refused([](Graph& g) { g.events[2] = g.events[4] = {EventKind::release, 1}; }, "releases storage 1 twice");
}

TEST(Keepable, IsWhatCanBeRebuiltAndIsWantedAndNotOverwritten) {
  Graph g;
  g.values = {value(8, 0, kNone, true),  // an input
              value(8, 1, 0),            // overwritten by op 1
              value(8, 1, 1),            // read by op 2
              value(8, 2, 2),            // saved
              value(8, 3, 3),            // nobody wants it
              value(8, 4, 4),            // only its shape is looked at
              value(8, 5, kNone),        // a root the step made
              value(8, 2, kNone)};       // written by somebody unknown, over the saved one
  const auto op = [](Arg arg, Few<ValueId, 2> fresh) {
    return Op{"aten::op", 0, 0, 0, {arg}, std::move(fresh), {}, {}};
  };
  g.ops.push_back(op({.value = 0}, {1}));
  g.ops.push_back(op({.value = 1, .becomes = 2}, {}));
  g.ops.push_back(op({.value = 2}, {3}));
  g.ops.push_back(op({.value = 0}, {4}));
  g.ops.push_back(op({.value = 0}, {5}));
  g.ops.push_back(op({.value = 5, .shape_only = true}, {6}));
  g.handles = {3};
  ASSERT_NO_THROW(check(g));
  EXPECT_EQ(keepable(g), (std::vector<bool>{false, false, true, false, false, false, false, false}));
  g.values.pop_back();
  EXPECT_EQ(keepable(g), (std::vector<bool>{false, false, true, true, false, false, false}));
}

}  // namespace
}  // namespace retrace::plan::graph_test
