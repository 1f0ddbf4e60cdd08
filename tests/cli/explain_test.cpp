// retrace explain: what it says about a tape is what the tape says.
#include <algorithm>

#include "plan/file/file.h"
#include "policy/predict.h"
#include "process.h"
#include "report/hand_trace.h"
#include "report/saved.h"
#include "synthetic/graphs.h"
#include "synthetic/step.h"

namespace retrace::test::cli {
namespace {

using Explain = Folder;

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST_F(Explain, TellsPeakAverageAndWhatWasSaved) {
  const Ran ran = retrace({"explain", hand_tape()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "progress is for terminals";
  for (const char* words : {"peak 40.0 KiB", "20.0 KiB in 8 values", "layer3", "every:2", "recompute_all", "backward"})
    EXPECT_TRUE(has(ran.out, words)) << words << "\n" << ran.out;
}

TEST_F(Explain, JsonHasTheFiguresOfTheSimulator) {
  const plan::Graph graph = report::make_hand_net().graph;
  const auto all = retrace({"explain", hand_tape(), "--json", "--ops", "--policy", "full", "every:2"}).json();
  EXPECT_EQ(all["peak_bytes"], 40 * 1024);
  EXPECT_EQ(all["saved_bytes"], 20 * 1024);
  EXPECT_EQ(all["layers"].size(), 5u);
  EXPECT_EQ(all["saved"].size(), 8u);
  ASSERT_EQ(all["policies"].size(), 2u);
  const auto& every_second = all["policies"][1];
  const plan::Outcome outcome = predict(graph, every(2));
  EXPECT_EQ(every_second["policy"], "every:2");
  EXPECT_EQ(every_second["peak_bytes"], outcome.peak_bytes);
  EXPECT_EQ(every_second["operators_again"], outcome.ops_replayed);
  EXPECT_NEAR(every_second["extra_seconds"].get<double>(), outcome.replay_seconds, 1e-12);
  EXPECT_LE(every_second["average_bytes"].get<double>(), outcome.peak_bytes);
  int64_t again = 0;
  for (const auto& [name, row] : every_second["again"].items()) again += row["times"].get<int64_t>();
  EXPECT_EQ(again, outcome.ops_replayed) << "counted by operator, all are there";
  EXPECT_EQ(every_second["again"]["tanh"]["times"], 4);
}

TEST_F(Explain, ComparesABudgetWithTheOthers) {
  const auto all = retrace({"explain", hand_tape(), "--json", "--policy", "full", "budget:80%"}).json();
  EXPECT_TRUE(all["policies"][1]["fits"]);
  EXPECT_EQ(all["policies"][1]["budget_bytes"], 32 * 1024);
  EXPECT_LE(all["policies"][1]["peak_bytes"].get<int64_t>(), 32 * 1024);
}

TEST_F(Explain, ABudgetThatDoesNotFitIsNamedWithTheSmallestThatDoes) {
  const Ran ran = retrace({"explain", hand_tape(), "--policy", "budget:1KiB"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.out, "does not fit")) << ran.out;
  EXPECT_TRUE(has(ran.out, "the smallest budget that can is")) << ran.out;
}

TEST_F(Explain, OpsShowEveryValueAndALayerItsOwn) {
  const Ran all = retrace({"explain", hand_tape(), "--ops"});
  EXPECT_TRUE(has(all.out, "layer0") && has(all.out, "layer4")) << all.out;
  const Ran one = retrace({"explain", hand_tape(), "--ops", "--layer", "layer2"});
  EXPECT_TRUE(has(one.out, "layer2")) << one.out;
  EXPECT_FALSE(has(one.out, "layer4")) << one.out;
  EXPECT_EQ(retrace({"explain", hand_tape(), "--layer", "layer2"}).out, one.out) << "a layer is told value by value";
  const Ran unknown = retrace({"explain", hand_tape(), "--layer", "layr2"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "no layer of the tape is called 'layr2'") && has(unknown.err, "did you mean 'layer2'?"))
      << unknown.err;
}

TEST_F(Explain, ALargeTapeIsNotPrintedLineByLine) {
  plan::Graph graph = plan::synthetic_transformer(700);
  ASSERT_GE(graph.ops.size(), 20'000u);
  for (size_t i = 0; i < graph.ops.size(); ++i) graph.ops[i].module = "blocks." + std::to_string(i / 30) + ".fc";
  plan::save(graph, path("large.tape"));
  const Ran ran = retrace({"explain", path("large.tape")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(std::count(ran.out.begin(), ran.out.end(), '\n'), 150);
  EXPECT_TRUE(has(ran.out, "more; --rows 0") || has(ran.out, "--rows 0 shows all")) << ran.out;
  const Ran wide = retrace({"explain", path("large.tape"), "--rows", "0", "--policy", "full"});
  EXPECT_GT(std::count(wide.out.begin(), wide.out.end(), '\n'), 700);
}

TEST_F(Explain, TellsWhichOperatorsRecomputeInsideThemselves) {
  plan::SyntheticStep step;
  plan::ValueId x = step.input(1 << 20);
  for (int i = 0; i < 3; ++i) {
    const plan::ValueId q = step.run("aten::mm", 1e-2, {x}, {1 << 20});
    const plan::ValueId y =
        step.run("aten::_scaled_dot_product_flash_attention_for_cpu", 5e-2, {q}, {1 << 20, 1 << 10});
    step.node({q, y, y + 1}, 0.1, 1 << 20, 1 << 20);
    step.release(q);
    step.release(y + 1);
    step.release_later(y);
    x = y;
  }
  plan::save(step.finish(), path("flash.tape"));
  const Ran ran = retrace({"explain", path("flash.tape")});
  EXPECT_TRUE(has(ran.out, "Already recomputing inside themselves")) << ran.out;
  EXPECT_FALSE(has(retrace({"explain", hand_tape()}).out, "Already recomputing"));
}

TEST_F(Explain, TheHandTraceIsWhatItsParts) {
  const report::HandNet net = report::make_hand_net();
  const auto all = retrace({"explain", "mlp4", "--json"}).json();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["peak_bytes"], report::trace_full(net).peak_bytes);
  EXPECT_EQ(all[1]["peak_bytes"], report::trace_every(net, 1).peak_bytes);
  EXPECT_EQ(all[2]["operators_again"], report::trace_every(net, 2).ops_again);
  const Ran text = retrace({"explain", "mlp4"});
  EXPECT_EQ(text.code, 0);
  for (const char* words : {"every:2  x1 x3", "back h3: z2 g2 h2 x2 z3 g3", "= 40", "= 37", "= 32"})
    EXPECT_TRUE(has(text.out, words)) << words << "\n" << text.out;
}

TEST_F(Explain, NamesOnATapeCannotSteerATerminal) {
  plan::Graph graph = report::make_hand_net().graph;
  for (plan::Op& op : graph.ops) op.name = "tanh\x1b[2J\xff", op.module = "a\nb";
  plan::save(graph, path("hostile.tape"));
  const Ran text = retrace({"explain", path("hostile.tape"), "--ops"}),
            json = retrace({"explain", path("hostile.tape"), "--json"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_FALSE(has(text.out, "\x1b")) << text.out;
  EXPECT_TRUE(has(text.out, "tanh?[2J?")) << text.out;
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_NO_THROW(json.json());
}

}  // namespace
}  // namespace retrace::test::cli
