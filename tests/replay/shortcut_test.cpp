// Batch norm is rebuilt from the statistics that forward computed, without computing them again.
#include "tape/shortcut.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <filesystem>

#include "plan/file/file.h"
#include "session/budget_steps.h"
#include "support/hostile.h"

namespace retrace::test::shortcuts {

struct Case {
  std::string name;
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  bool affine = true;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  double spread = 1;  // of the values: also where sums lose digits
};

class EveryBatchNorm : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, EveryBatchNorm,
    ::testing::Values(Case{"Images", {4, 7, 9, 5}}, Case{"LargeImages", {2, 64, 33, 31}}, Case{"Rows", {16, 10}},
                      Case{"Signals", {3, 5, 17}}, Case{"Volumes", {2, 3, 4, 5, 6}},
                      Case{"Doubles", {4, 7, 9, 5}, at::kDouble},
                      Case{"WithoutWeights", {4, 7, 9, 5}, at::kFloat, false},
                      Case{"ChannelsLast", {4, 7, 9, 5}, at::kFloat, true, at::MemoryFormat::ChannelsLast},
                      Case{"HugeValues", {4, 7, 9, 5}, at::kFloat, true, at::MemoryFormat::Contiguous, 1e20},
                      Case{"TinyValues", {4, 7, 9, 5}, at::kFloat, true, at::MemoryFormat::Contiguous, 1e-30}),
    [](const auto& info) { return info.param.name; });

TEST_P(EveryBatchNorm, IsTheSameBitForBitThroughTheShortcut) {
  const Case& c = GetParam();
  torch::manual_seed(3);
  const at::Tensor x = (torch::randn(c.sizes, c.dtype) * c.spread).contiguous(c.format);
  const int64_t channels = c.sizes[1];
  const at::Tensor weight = c.affine ? torch::randn({channels}, c.dtype) : at::Tensor();
  const at::Tensor bias = c.affine ? torch::randn({channels}, c.dtype) : at::Tensor();
  const at::Tensor mean = torch::zeros({channels}, c.dtype), variance = torch::ones({channels}, c.dtype);
  const auto forward = at::native_batch_norm(x, weight, bias, mean, variance, true, 0.1, 1e-5);

  std::vector<c10::IValue> stack{x, weight, bias, c10::IValue(), c10::IValue(), true, 0.1, 1e-5};
  take_shortcut(stack, {std::get<1>(forward), std::get<2>(forward)});
  c10::Dispatcher::singleton().findSchemaOrThrow("aten::native_batch_norm", "").callBoxed(&stack);
  EXPECT_TRUE(bits_of({stack.front().toTensor()}) == bits_of({std::get<0>(forward)}));
}

struct Net : torch::nn::Module {
  Net() {
    for (int i = 0; i < 6; ++i) {
      convolutions->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).padding(1)));
      norms->push_back(torch::nn::BatchNorm2d(16));
    }
    register_module("convolutions", convolutions);
    register_module("norms", norms);
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < 6; ++i) {
      x = convolutions[i]->as<torch::nn::Conv2d>()->forward(x);
      x = norms[i]->as<torch::nn::BatchNorm2d>()->forward(x).relu_();
    }
    return x;
  }
  torch::nn::ModuleList convolutions, norms;
};

// Steps of a small convolutional net, large enough that statistics take most of a batch norm's time; with a budget also
// what the tape of the last one says.
std::vector<std::string> train(const std::optional<Budget>& budget, plan::Graph* graph) {
  torch::manual_seed(5);
  Net net;
  const at::Tensor x = torch::randn({8, 16, 40, 40});
  std::optional<Session> session;
  if (budget) session.emplace(*budget);
  std::vector<std::string> bits;
  for (int i = 0; i < 4; ++i) {
    const std::unique_ptr<Step> step(session ? new Step(session->step()) : nullptr);
    net.zero_grad(true);
    net.forward(x).pow(2).mean().backward();
    Tensors seen;
    for (const at::Tensor& p : net.parameters()) seen.push_back(p.grad());
    for (const at::Tensor& b : net.buffers()) seen.push_back(b);
    bits.push_back(bits_of(seen));
  }
  if (graph) {
    const auto path = std::filesystem::temp_directory_path() / ("shortcut." + std::to_string(::getpid()) + ".tape");
    session->save_tape(path.string());
    *graph = plan::load_graph(path.string());
    std::filesystem::remove(path);
  }
  return bits;
}

TEST(Shortcut, IsTakenByABatchNormUnderABudgetAndGivesTheSameGradientsAndBuffers) {
  const auto plain = train(std::nullopt, nullptr);
  plan::Graph graph;
  EXPECT_TRUE(train(budget("70%"), &graph) == plain);
  int norms = 0, measured = 0;
  for (const plan::Op& op : graph.ops) {
    if (op.name != "aten::native_batch_norm") {
      EXPECT_EQ(op.shortcut_seconds, 0) << op.name;
      continue;
    }
    ++norms;
    EXPECT_GT(op.shortcut_seconds, 0);
    measured += op.shortcut_seconds != double{kShortcutShare * static_cast<float>(op.seconds)};
  }
  EXPECT_EQ(norms, 6);
  EXPECT_GT(measured, 0) << "no batch norm was rebuilt through its shortcut";
}

TEST(Shortcut, IsNotTakenByABatchNormThatDoesNotTrain) {
  torch::manual_seed(5);
  Net net;
  net.eval();
  const at::Tensor x = torch::randn({8, 16, 40, 40});
  Session session(budget("200MiB"));
  {
    const auto step = session.step();
    net.forward(x).sum().backward();
  }
  const auto path = std::filesystem::temp_directory_path() / ("shortcut." + std::to_string(::getpid()) + ".tape");
  session.save_tape(path.string());
  for (const plan::Op& op : plan::load_graph(path.string()).ops) EXPECT_EQ(op.shortcut_seconds, 0) << op.name;
  std::filesystem::remove(path);
}

}  // namespace retrace::test::shortcuts
