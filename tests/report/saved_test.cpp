#include "report/saved.h"

#include <gtest/gtest.h>

#include "report/hand_trace.h"
#include "synthetic/graphs.h"
#include "synthetic/step.h"

namespace retrace::report {
namespace {

TEST(Saved, ListsWhatForwardLeavesAndHowLongItWaits) {
  const HandNet net = make_hand_net();
  const StepTimes times(net.graph);
  const SavedTape saved(net.graph, times);
  ASSERT_EQ(saved.values().size(), 8u);
  EXPECT_EQ(saved.bytes(), (4 * 4 + 4) * 1024);
  const SavedValue& first = saved.values()[1];
  EXPECT_EQ(net.graph.values[plan::at(first.value)].name, "g1");
  EXPECT_EQ(first.times, 2) << "by tanh and by the product that reads it";
  EXPECT_NEAR(first.made_seconds, 9e-3, 1e-12) << "two products and a tanh";
  // Forward ends at 44 ms; backward of layers 4 to 2 takes 18 ms each.
  EXPECT_NEAR(first.taken_seconds, (44 + 3 * 18) * 1e-3, 1e-12);
  EXPECT_NEAR(first.wait_seconds(), 89e-3, 1e-12);
}

TEST(Saved, RebuildingCountsWhatIsNotThere) {
  const HandNet net = make_hand_net();
  const SavedTape saved(net.graph, StepTimes(net.graph));
  const auto value = [&](const std::string& name) {
    for (size_t v = 0; v < net.graph.values.size(); ++v) {
      if (net.graph.values[v].name == name) return static_cast<plan::ValueId>(v);
    }
    return plan::kNone;
  };
  const Rebuild g = saved.rebuild({value("g2")});
  EXPECT_EQ(g.ops, 2) << "z2, which nobody saved, and g2";
  EXPECT_DOUBLE_EQ(g.seconds, 5e-3);
  EXPECT_EQ(saved.rebuild({value("x2")}).ops, 2) << "h2 from g2, and the sum";
  EXPECT_EQ(saved.rebuild({value("x2"), value("g2")}).ops, 4);
  EXPECT_EQ(saved.rebuild({value("a")}).ops, 0) << "it is there";
  EXPECT_EQ(saved.rebuild({}).ops, 0);
}

TEST(Saved, RebuildingCountsFlopsAndTheProductsThatHaveNoShapes) {
  HandNet net = make_hand_net();
  std::vector<plan::ValueId> made;
  for (const plan::ValueId v : net.graph.handles) {
    if (net.graph.values[plan::at(v)].producer != plan::kNone) made.push_back(v);
  }
  const auto rebuild = [&] { return SavedTape(net.graph, StepTimes(net.graph)).rebuild(made); };
  EXPECT_EQ(rebuild().flops, 0) << "its names are no operators'";
  EXPECT_EQ(rebuild().uncounted, 0);
  for (plan::Op& op : net.graph.ops) {
    op.name = "aten::mm";
    op.outputs.clear();
  }
  EXPECT_GT(rebuild().ops, 0);
  EXPECT_EQ(rebuild().uncounted, rebuild().ops);
}

TEST(Saved, GroupsByLayerInOrderAndByOperatorCheapestFirst) {
  const HandNet net = make_hand_net();
  const SavedTape saved(net.graph, StepTimes(net.graph));
  const auto layers = saved.by_layer();
  ASSERT_EQ(layers.size(), 5u);
  EXPECT_EQ(layers[2].name, "layer2");
  EXPECT_EQ(layers[2].ops, 4);
  EXPECT_EQ(layers[2].values, 2);
  EXPECT_EQ(layers[2].bytes, 5 * 1024);
  EXPECT_EQ(layers[4].bytes, 1024) << "nobody saved the last stream";
  const auto kinds = saved.by_operator();
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0].name, "product");  // 4 ms for x0, 4 KiB
  EXPECT_EQ(kinds[1].name, "add");      // 5 ms for 4 KiB
  EXPECT_EQ(kinds[2].name, "tanh");     // 5 ms for 1 KiB
}

TEST(Saved, AShortcutCountsOnlyWhileTheOtherResultsAreThere) {
  plan::SyntheticStep step;
  const plan::ValueId x = step.input(100);
  const plan::ValueId y = step.run("batch_norm", 1.0, {x}, {100, 4});
  step.shortcut(0.25);
  step.node({y, y + 1}, 1, 100, 100);
  const plan::Graph graph = step.finish();
  const SavedTape saved(graph, StepTimes(graph));
  EXPECT_DOUBLE_EQ(saved.rebuild({y}).seconds, 0.25);
  EXPECT_DOUBLE_EQ(saved.rebuild({y, y + 1}).seconds, 1.0);
}

TEST(Saved, ALayerIsTheFirstPartOfAPathWithItsNumber) {
  const auto layer = [](const std::string& module) {
    plan::Op op;
    op.module = module;
    return layer_of(op);
  };
  EXPECT_EQ(layer("blocks.3.mlp.fc1"), "blocks.3");
  EXPECT_EQ(layer("layer1.0"), "layer1.0");
  EXPECT_EQ(layer("a.1.2.b"), "a.1.2");
  EXPECT_EQ(layer("head"), "head");
  EXPECT_EQ(layer("encoder.norm"), "encoder");
  EXPECT_EQ(layer("a..b"), "a");
  EXPECT_EQ(layer(""), "(no layer)");
}

TEST(Saved, FusedAttentionRecomputesInside) {
  EXPECT_TRUE(recomputes_inside("aten::_scaled_dot_product_flash_attention_for_cpu"));
  EXPECT_FALSE(recomputes_inside("aten::bmm"));
}

}  // namespace
}  // namespace retrace::report
