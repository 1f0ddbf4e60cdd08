// retrace trace: models of ours and TorchScript files become tapes.
#include <algorithm>

#include "plan/file/file.h"
#include "plan/solve/plan.h"
#include "process.h"
#include "scripts.h"

namespace retrace::test::cli {
namespace {

using Trace = Folder;

std::vector<std::string> modules_of(const plan::Graph& graph) {
  std::vector<std::string> modules;
  for (const plan::Op& op : graph.ops) {
    if (std::find(modules.begin(), modules.end(), op.module) == modules.end()) modules.push_back(op.module);
  }
  return modules;
}

TEST_F(Trace, WritesTheStepOfAModelWithItsLayersByName) {
  const Ran ran = retrace({"trace", "gpt", "--size", "test", "-o", path("gpt.tape")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(files(), std::vector<std::string>{"gpt.tape"}) << "and nothing beside it";
  const plan::Graph graph = plan::load_graph(path("gpt.tape"));
  EXPECT_NO_THROW(plan::check(graph));
  const auto modules = modules_of(graph);
  EXPECT_NE(std::find(modules.begin(), modules.end(), "block2.up"), modules.end());
  EXPECT_GT(graph.weight_bytes, 0);
  EXPECT_FALSE(graph.backward_ops.empty());
  EXPECT_NE(ran.out.find(std::to_string(graph.ops.size()) + " operators"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("retrace explain " + path("gpt.tape")), std::string::npos) << ran.out;
}

TEST_F(Trace, TheSameModelHasTheSameBytesEveryTime) {
  for (const char* name : {"a.tape", "b.tape"})
    ASSERT_EQ(retrace({"trace", "unet", "--size", "test", "-o", path(name)}).code, 0);
  const plan::Graph a = plan::load_graph(path("a.tape")), b = plan::load_graph(path("b.tape"));
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(plan::plain(a).peak_bytes, plan::plain(b).peak_bytes);
}

TEST_F(Trace, TakesSizesFromTheCommandLine) {
  const auto traced = [&](std::vector<std::string> sizes) {
    sizes.insert(sizes.begin(), {"trace", "gpt", "--size", "test", "-o", path("x.tape")});
    const Ran ran = retrace(sizes);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return plan::load_graph(path("x.tape"));
  };
  const plan::Graph usual = traced({}), shallow = traced({"--layers", "1"}), wide = traced({"--width", "32"});
  const plan::Graph large = traced({"--batch", "6", "--seq", "16"});
  EXPECT_LT(shallow.ops.size(), usual.ops.size());
  EXPECT_GT(wide.weight_bytes, 3 * usual.weight_bytes);
  EXPECT_EQ(large.weight_bytes, usual.weight_bytes);
  EXPECT_GT(plan::plain(large).peak_bytes, plan::plain(usual).peak_bytes);
}

TEST_F(Trace, ExplainCountsTheFlopsThatAGptHasOnPaper) {
  ASSERT_EQ(retrace({"trace", "gpt", "--batch", "3", "--seq", "16", "--width", "32", "--heads", "4", "--layers", "2",
                     "-o", path("gpt.tape")})
                .code,
            0);
  constexpr double kBatch = 3, kLength = 16, kWidth = 32, kLayers = 2;
  const double products = 24 * kBatch * kLength * kWidth * kWidth;  // query, key, value, out; twice 4 times as wide
  const double attention = 4 * kBatch * kLength * kLength * kWidth;
  const auto all = retrace({"explain", path("gpt.tape"), "--json"}).json();
  EXPECT_EQ(all["forward_flops"].get<double>(), kLayers * (products + attention));
  EXPECT_EQ(all["forward_uncounted_products"], 0);
}

TEST_F(Trace, TheOptimizersStateIsLiveWhenTheStepBegins) {
  const auto start_bytes = [&](const char* optimizer) {
    EXPECT_EQ(retrace({"trace", "gpt", "--size", "test", "--optimizer", optimizer, "-o", path("x.tape")}).code, 0);
    const plan::Graph graph = plan::load_graph(path("x.tape"));
    return graph.start_bytes - graph.weight_bytes;
  };
  const int64_t none = start_bytes("none"), adamw = start_bytes("adamw");
  EXPECT_GE(adamw, none + 2 * plan::load_graph(path("x.tape")).weight_bytes) << "two moments";
}

TEST_F(Trace, ReadsTorchScriptWithItsModules) {
  save_two_layer_script(path("net.pt"));
  const Ran ran = retrace({"trace", path("net.pt"), "--input", "f32[5,4]", "-o", path("net.tape")});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const plan::Graph graph = plan::load_graph(path("net.tape"));
  EXPECT_EQ(graph.weight_bytes, (4 * 8 + 8 * 3) * 4);
  const auto modules = modules_of(graph);
  for (const char* module : {"first", "second"})
    EXPECT_NE(std::find(modules.begin(), modules.end(), module), modules.end()) << module;
}

TEST_F(Trace, TakesSeveralInputsOfSeveralTypesAndOutputsInATuple) {
  save_embedding_script(path("net.pt"));
  const Ran ran = retrace({"trace", path("net.pt"), "--input", "i64[7]:10", "--input", "bool[7]", "--loss", "square",
                           "-o", path("x.tape")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NO_THROW(plan::load_graph(path("x.tape")));
}

TEST_F(Trace, TrainsWhatTheFileWouldNotIfToldTo) {
  save_script_without_gradient(path("net.pt"));
  const Ran ran = retrace({"trace", path("net.pt"), "--input", "f32[3,4]", "--train-all", "-o", path("x.tape")});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(Trace, RefusesWhatCannotBeTrainedInOneLine) {
  const auto refused = [&](const std::string& file, const std::vector<std::string>& inputs, const std::string& words) {
    std::vector<std::string> arguments{"trace", path(file), "-o", path("x.tape")};
    for (const std::string& input : inputs) arguments.insert(arguments.end(), {"--input", input});
    expect_refused(arguments, {"[trace]", words});
    EXPECT_FALSE(std::filesystem::exists(path("x.tape")));
  };
  save_script_without_parameters(path("bare.pt"));
  save_script_without_gradient(path("frozen.pt"));
  save_script_of_whole_numbers(path("numbers.pt"));
  save_script_without_forward(path("other.pt"));
  save_two_layer_script(path("net.pt"));
  write("text.pt", "not a model");
  refused("bare.pt", {"f32[3,4]"}, "no parameters");
  refused("frozen.pt", {"f32[3,4]"}, "--train-all");
  refused("numbers.pt", {"f32[3,4]"}, "no floating-point tensor");
  refused("other.pt", {"f32[3,4]"}, "forward");
  refused("text.pt", {"f32[3,4]"}, "TorchScript");
  refused("net.pt", {}, "(x: Tensor)");
  refused("net.pt", {"f32[3,4]", "f32[3,4]"}, "2 inputs");
  refused("net.pt", {"f32[3,5]"}, "one step failed");
}

TEST_F(Trace, RefusesInputsThatCannotBe) {
  save_two_layer_script(path("net.pt"));
  for (const char* input : {"f32", "f32[", "f32[0,4]", "f32[-1,4]", "f32[4,,4]", "f32[x]", "f32[3,4]:7", "i64[3]:0",
                            "f32[9999999999,9999999999]", "f33[3,4]", "[3,4]", "f32[3,4]junk", ""})
    expect_refused({"trace", path("net.pt"), "--input", input, "-o", path("x.tape")}, {"--input"});
}

TEST_F(Trace, RefusesSizesThatCannotBe) {
  const std::string output = path("x.tape");
  expect_refused({"trace", "gpt", "--heads", "5", "-o", output}, {"width", "heads"});
  expect_refused({"trace", "gpt", "--side", "8", "-o", output}, {"no side"});
  expect_refused({"trace", "vit", "--side", "100", "-o", output}, {"patches"});
  expect_refused({"trace", "unet", "--layers", "30", "-o", output}, {"levels"});
  expect_refused({"trace", "gpt", "--batch", "0", "-o", output}, {"--batch"});
  expect_refused({"trace", "gpt", "--batch", "many", "-o", output}, {"--batch"});
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(Trace, AStepThatTheMachineHasNoMemoryForFailsInOneLine) {
  expect_refused({"trace", "gpt", "--size", "test", "--batch", "1000000000", "-o", path("x.tape")}, {"memory"}, 1);
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(Trace, RefusesUnknownModelsAndSuggestsTheNearOnes) {
  expect_refused({"trace", "gtp", "-o", path("x.tape")}, {"did you mean 'gpt'?"});
  expect_refused({"trace", "resnet5", "-o", path("x.tape")}, {"did you mean 'resnet50'?"});
  expect_refused({"trace", path("none.pt"), "-o", path("x.tape")}, {"no file"});
  expect_refused({"trace", "gpt", "--optimizer", "adam", "-o", path("x.tape")}, {"did you mean 'adamw'?"});
  expect_refused({"trace", "-o", path("x.tape")}, {"no model is named"});
}

}  // namespace
}  // namespace retrace::test::cli
