// A saved tape can be read by people: weights by their paths, operators by their module, results by their shapes, and
// what backward ran.
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <retrace/retrace.h>

#include "plan/file/file.h"
#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::naming {

constexpr int64_t kBatch = 4, kWidth = 8;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  at::Tensor forward(const at::Tensor& x) { return x + fc2(torch::gelu(fc1(x))); }
  torch::nn::Linear fc1{kWidth, 2 * kWidth}, fc2{2 * kWidth, kWidth};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("blocks", blocks);
    register_module("norm", norm);
    scale = register_parameter("scale", torch::ones({kWidth}));
  }
  at::Tensor forward(at::Tensor x) { return norm(blocks->forward(x.sin())) * scale; }
  torch::nn::Sequential blocks{Block(), Block()};
  torch::nn::BatchNorm1d norm{kWidth};
  at::Tensor scale;
};
TORCH_MODULE(Net);

at::Tensor batch() { return torch::ones({kBatch, kWidth}); }

void train(Session& session, Net& net, int steps = 1) {
  for (int i = 0; i < steps; ++i) {
    net->zero_grad();
    const auto step = session.step();
    net(batch()).sum().backward();
  }
}

struct TapeFile {
  std::string path =
      (std::filesystem::temp_directory_path() / ("retrace_names_" + std::to_string(::getpid()))).string();
  explicit TapeFile(const Session& session) { session.save_tape(path); }
  ~TapeFile() { std::filesystem::remove(path); }
  std::string bytes() const {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    return all.str();
  }
};

plan::Graph tape_of(const Session& session) { return plan::load_graph(TapeFile(session).path); }

std::set<std::string> weight_names(const plan::Graph& graph) {
  std::set<std::string> names;
  for (const plan::Value& v : graph.values) {
    if (v.external) names.insert(v.name);
  }
  return names;
}

std::vector<std::string> modules_of(const plan::Graph& graph, const std::string& op) {
  std::vector<std::string> modules;
  for (const plan::Op& o : graph.ops) {
    if (o.name == op) modules.push_back(o.module);
  }
  return modules;
}

std::vector<std::string> backward_names(const plan::Graph& graph) {
  std::vector<std::string> names;
  for (const plan::BackwardOp& op : graph.backward_ops) names.push_back(op.name);
  return names;
}

using Strings = std::vector<std::string>;

TEST(Names, AreThePathsOfParametersAndBuffers) {
  const Net net;
  const Strings all = names(*net).paths();
  EXPECT_EQ(all.size(), net->parameters().size() + net->buffers().size());
  for (const char* path : {"scale", "blocks.1.fc2.bias", "norm.running_var"}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), path), 1) << path;
  }
  EXPECT_EQ(names(net->norm).paths().front(), "weight") << "of what holds a module";
  EXPECT_EQ(names(*net->norm, "a.b").paths().front(), "a.b.weight");
}

TEST(Names, WeightsHaveTheirPathsAndOperatorsTheModuleOfWhatTheyRead) {
  Net net;
  Session session(recompute_all());
  session.name(*net);
  train(session, net);
  const plan::Graph graph = tape_of(session);
  const auto weights = weight_names(graph);
  for (const std::string& path : names(*net).paths()) {
    EXPECT_TRUE(weights.count(path) || path == "norm.num_batches_tracked") << path;
  }
  EXPECT_EQ(modules_of(graph, "aten::addmm"),
            (Strings{"blocks.0.fc1", "blocks.0.fc2", "blocks.1.fc1", "blocks.1.fc2"}));
  EXPECT_EQ(modules_of(graph, "aten::native_batch_norm"), Strings{"norm"});
  EXPECT_EQ(modules_of(graph, "aten::mul"), Strings{""}) << "a weight of the whole";
}

TEST(Names, WhatReadsNoWeightBelongsToTheNearestBefore) {
  Net net;
  Session session(recompute_all());
  session.name(*net);
  train(session, net);
  const plan::Graph graph = tape_of(session);
  EXPECT_EQ(modules_of(graph, "aten::sin"), Strings{""}) << "nothing came before";
  EXPECT_EQ(modules_of(graph, "aten::gelu"), (Strings{"blocks.0.fc1", "blocks.1.fc1"}));
  EXPECT_EQ(modules_of(graph, "aten::add"), (Strings{"blocks.0.fc2", "blocks.1.fc2"}))
      << "the later of the two it reads";
  for (const plan::Op& op : graph.ops) {
    for (const plan::ValueId v : op.fresh) EXPECT_EQ(graph.values[plan::at(v)].name, op.module) << op.name;
  }
}

TEST(Names, ResultsHaveShapeTypeAndDevice) {
  Net net;
  Session session(recompute_all());
  train(session, net);
  const plan::Graph graph = tape_of(session);
  std::vector<std::vector<int64_t>> shapes;
  for (const plan::Op& op : graph.ops) {
    ASSERT_FALSE(op.outputs.empty()) << op.name;
    EXPECT_GE(op.outputs.size(), op.fresh.size()) << op.name;
    if (op.name != "aten::addmm") continue;
    shapes.push_back(op.outputs[0].shape);
    EXPECT_EQ(op.outputs[0].dtype, "float32");
    EXPECT_EQ(op.outputs[0].device, "cpu");
  }
  const std::vector<int64_t> wide{kBatch, 2 * kWidth}, narrow{kBatch, kWidth};
  EXPECT_EQ(shapes, (std::vector<std::vector<int64_t>>{wide, narrow, wide, narrow}));
}

TEST(Names, TypesAreCalledAsTheFieldCallsThem) {
  Session session(recompute_all());
  {
    const auto step = session.step();
    const at::Tensor x = torch::ones({3}, torch::requires_grad());
    const at::Tensor picked = torch::where(x > 0, x.to(at::kDouble), torch::zeros({}, at::kDouble));
    std::get<0>(picked.sort()).to(at::kBFloat16).sum().backward();
  }
  std::set<std::string> types;
  for (const plan::Op& op : tape_of(session).ops) {
    for (const plan::Output& output : op.outputs) types.insert(output.dtype);
  }
  for (const char* type : {"float32", "float64", "int64", "bool", "bfloat16"}) EXPECT_EQ(types.count(type), 1u) << type;
}

TEST(Names, WithoutNamingThereAreNone) {
  Net net;
  Session session(recompute_all());
  train(session, net);
  const plan::Graph graph = tape_of(session);
  for (const plan::Value& v : graph.values) EXPECT_EQ(v.name, "");
  for (const plan::Op& op : graph.ops) EXPECT_EQ(op.module, "") << op.name;
}

TEST(Names, ATapeIsTheSameAfterLoading) {
  Net net;
  Session session(budget("1GiB"));
  session.name(*net);
  train(session, net, 3);
  const TapeFile file(session);
  const plan::Graph graph = plan::load_graph(file.path);
  EXPECT_NO_THROW(plan::check(graph));
  EXPECT_EQ(plan::to_bytes(graph), file.bytes());
  EXPECT_EQ(modules_of(graph, "aten::gelu"), (Strings{"blocks.0.fc1", "blocks.1.fc1"})) << "under a plan";
}

TEST(Names, ALongPathIsClippedAndTheTapeSaved) {
  const at::Tensor w = torch::ones({4}, torch::requires_grad());
  Names all;
  all.add(w, std::string(1000, 'a') + ".w");
  all.add(at::Tensor(), "nothing");
  EXPECT_EQ(all.paths().size(), 1u);
  Session session(recompute_all());
  session.name(all);
  {
    const auto step = session.step();
    w.exp().sum().backward();
  }
  const plan::Graph graph = tape_of(session);
  EXPECT_EQ(modules_of(graph, "aten::exp"), Strings{std::string(plan::kLongestName, 'a')});
}

TEST(Names, NamingAgainAddsAndReplaces) {
  Net net, other;
  Session session(recompute_all());
  session.name(*net);
  session.name(*other, "other");
  session.name(*net->norm, "renamed");
  {
    const auto step = session.step();
    const at::Tensor first = net(batch()), second = other(batch());
    (first + second).sum().backward();
  }
  const plan::Graph graph = tape_of(session);
  EXPECT_EQ(modules_of(graph, "aten::native_batch_norm"), (Strings{"renamed", "other.norm"}));
  EXPECT_EQ(modules_of(graph, "aten::mul"), (Strings{"", "other"}));
  EXPECT_EQ(modules_of(graph, "aten::addmm").front(), "blocks.0.fc1");
}

TEST(Names, KeepNothingAliveAndAreNotInheritedByWhatComesInItsPlace) {
  const int64_t before = memory::live_bytes();
  Session session(recompute_all());
  for (int i = 0; i < 8; ++i) session.name(*Net());
  EXPECT_EQ(memory::live_bytes(), before);
  Net net;
  train(session, net);
  EXPECT_EQ(weight_names(tape_of(session)), std::set<std::string>{""});
  session.name(*net);
  net->scale.set_data(torch::ones({kWidth}));
  train(session, net);
  const auto weights = weight_names(tape_of(session));
  EXPECT_EQ(weights.count("scale"), 0u);
  EXPECT_EQ(weights.count("norm.weight"), 1u);
}

TEST(Names, AStepThatIsOpenGoesOnWithTheNamesItBeganWith) {
  Net net;
  Session session(recompute_all());
  {
    const auto step = session.step();
    session.name(*net);
    net(batch()).sum().backward();
  }
  EXPECT_EQ(weight_names(tape_of(session)), std::set<std::string>{""});
  train(session, net);
  EXPECT_EQ(weight_names(tape_of(session)).count("scale"), 1u);
}

// ---- What backward ran ----

TEST(BackwardOps, AreThoseOfBackwardAloneUnderEveryPolicy) {
  Strings expected;
  for (const Policy& policy : {keep_all(), recompute_all(), every(2)}) {
    Net net;
    Session session(policy);
    train(session, net);
    const plan::Graph graph = tape_of(session);
    const Strings ran = backward_names(graph);
    EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::mm"), 7) << "two for each layer, but the input needs none";
    EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::addmm"), 0) << "only forward and replay run these";
    if (expected.empty()) expected = ran;
    EXPECT_EQ(ran, expected);
  }
}

TEST(BackwardOps, HappenBetweenTheEventsOfBackward) {
  Net net;
  Session session(recompute_all());
  train(session, net);
  const plan::Graph graph = tape_of(session);
  const auto is_unpack = [](const plan::Event& e) { return e.kind == plan::EventKind::unpack; };
  const auto first = std::find_if(graph.events.begin(), graph.events.end(), is_unpack) - graph.events.begin();
  int32_t latest = plan::kNone;
  double seconds = 0;
  for (const plan::BackwardOp& op : graph.backward_ops) {
    EXPECT_GE(op.after_event, latest);
    latest = op.after_event;
    seconds += op.seconds;
    EXPECT_TRUE(op.name != "aten::mm" || op.after_event >= first);
  }
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, graph.seconds);
}

// An optimizer's state makes the second step another one than the first; its backward is of the kind that was watched.
TEST(BackwardOps, OfTheFirstStepStandForThoseOfAllLikeIt) {
  Net net;
  Session session(budget("1GiB"));
  torch::optim::Adam optimizer(net->parameters());
  Strings first;
  for (int i = 0; i < 4; ++i) {
    optimizer.zero_grad();
    {
      const auto step = session.step();
      net(batch()).sum().backward();
      optimizer.step();
    }
    const Strings ran = backward_names(tape_of(session));
    if (i == 0) first = ran;
    EXPECT_EQ(ran, first) << "in step " << i + 1;
  }
  EXPECT_FALSE(first.empty());
}

TEST(BackwardOps, OfSeveralBackwardsAreAllThere) {
  Session session(recompute_all());
  const at::Tensor x = torch::ones({4}, torch::requires_grad());
  for (int i = 0; i < 2; ++i) {
    {
      const auto step = session.step();
      const at::Tensor y = x.exp();
      const at::Tensor a = y.sin().sum(), b = y.sigmoid().sum();
      a.backward({}, /*retain_graph=*/true);
      b.backward();
    }
    const Strings ran = backward_names(tape_of(session));
    EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::cos"), 1);
    EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::sigmoid_backward"), 1);
  }
}

TEST(BackwardOps, ThatMakeAGraphAreOperatorsOfTheTape) {
  Session session(recompute_all());
  const at::Tensor x = torch::ones({4}, torch::requires_grad());
  {
    const auto step = session.step();
    const auto gradient = torch::autograd::grad({x.sin().sum()}, {x}, {}, true, /*create_graph=*/true);
    gradient[0].sum().backward();
  }
  const plan::Graph graph = tape_of(session);
  const Strings ran = backward_names(graph);
  EXPECT_EQ(modules_of(graph, "aten::cos").size(), 1u);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::cos"), 0);
  EXPECT_GE(std::count(ran.begin(), ran.end(), "aten::sin"), 1);
}

TEST(BackwardOps, OfABackwardThatFailedAreForgottenAndTheNextOneIsWatched) {
  Session session(recompute_all());
  const at::Tensor x = torch::ones({4}, torch::requires_grad());
  const auto run = [&](bool fails) {
    const auto step = session.step();
    const at::Tensor y = x.exp();
    if (fails) y.register_hook([](const at::Tensor&) -> void { throw std::runtime_error("no"); });
    y.sin().sum().backward();
  };
  EXPECT_ANY_THROW(run(true));
  run(false);
  const Strings ran = backward_names(tape_of(session));
  EXPECT_EQ(std::count(ran.begin(), ran.end(), "aten::cos"), 1);
}

TEST(BackwardOps, CostNoBytes) {
  Net net;
  Session session(recompute_all(), {.verify = Verify::never});
  std::vector<int64_t> peaks;
  for (int i = 0; i < 3; ++i) {
    net->zero_grad(/*set_to_none=*/true);
    memory::reset_peak();
    const auto step = session.step();
    net(batch()).sum().backward();
    peaks.push_back(memory::peak_bytes());
  }
  EXPECT_EQ(peaks[0], peaks[1]) << "watched, and not";
  EXPECT_EQ(peaks[1], peaks[2]);
}

}  // namespace retrace::test::naming
