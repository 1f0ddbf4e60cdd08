// checkpoint_sequential: parity, segment sizes, bad input.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::sequential {

using torch::Tensor;

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::Linear(8, 8),
                               torch::nn::Dropout(0.3), torch::nn::Tanh(), torch::nn::Linear(8, 4));
}

template <class Parameters>
Tensors with_gradients(Tensor y, Tensor x, const Parameters& parameters) {
  Tensors results = {y, x.grad()};
  for (const auto& p : parameters) results.push_back(p.grad());
  return results;
}

const std::vector<How> kOneWay = {How::checkpoint};

TEST(Sequential, GradientsEqualThePlainModelsForEverySegmentCount) {
  for (int64_t segments = 1; segments <= 6; ++segments) {
    expect_same_as_plain(
        [&](const Wrap& wrap) -> Tensors {
          auto net = make_net();
          auto x = torch::randn({5, 6}).requires_grad_();
          auto y = wrap.how() == How::plain ? net->forward(x) : checkpoint_sequential(net, segments, x);
          y.sum().backward();
          return with_gradients(y, x, net->parameters());
        },
        kOneWay);
  }
}

TEST(Sequential, TakesAListOfChildren) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        auto net = make_net();
        std::vector<torch::nn::AnyModule> children(net->begin(), net->end());
        auto x = torch::randn({5, 6}).requires_grad_();
        Tensor y = x;
        if (wrap.how() == How::plain) {
          for (auto& child : children) y = child.forward(y);
        } else {
          y = checkpoint_sequential(children, 3, x);
        }
        y.sum().backward();
        return with_gradients(y, x, net->parameters());
      },
      kOneWay);
}

TEST(Sequential, TakesAModuleList) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        torch::nn::ModuleList list(torch::nn::Linear(6, 6), torch::nn::Linear(6, 6), torch::nn::Linear(6, 6));
        const auto call = [](auto& layer, auto x) {
          return layer->template as<torch::nn::Linear>()->forward(x).tanh();
        };
        auto x = torch::randn({5, 6}).requires_grad_();
        Tensor y = x;
        if (wrap.how() == How::plain) {
          for (auto& layer : *list) y = call(layer, y);
        } else {
          y = checkpoint_sequential(list, 2, x, call);
        }
        y.sum().backward();
        return with_gradients(y, x, list->parameters());
      },
      kOneWay);
}

TEST(Sequential, TakesCallables) {
  std::vector<std::function<Tensor(Tensor)>> layers;
  for (int i = 0; i < 5; ++i) layers.push_back([i](Tensor t) { return (t * (i + 1)).sin(); });
  auto x = torch::randn({4}).requires_grad_();
  checkpoint_sequential(layers, 2, x).sum().backward();
  auto plain = x.detach().requires_grad_();
  Tensor y = plain;
  for (auto& layer : layers) y = layer(y);
  y.sum().backward();
  EXPECT_SAME_BITS(plain.grad(), x.grad());
}

TEST(Sequential, SupportsFunctionalGradientsWithCreateGraph) {
  expect_same_as_plain(
      [](const Wrap& wrap) -> Tensors {
        torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 4),
                                  torch::nn::Sigmoid());
        auto x = torch::randn({5, 6}).requires_grad_();
        auto y = wrap.how() == How::plain ? net->forward(x) : checkpoint_sequential(net, 2, x);
        auto g = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
        g.square().sum().backward();
        Tensors results = with_gradients(y, x, net->parameters());
        results.push_back(g);
        return results;
      },
      kOneWay);
}

TEST(Sequential, SegmentsAreBalanced) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(balanced_segments(9, 5), (Sizes{2, 2, 2, 2, 1}));
  EXPECT_EQ(balanced_segments(8, 4), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(balanced_segments(7, 3), (Sizes{3, 2, 2}));
  EXPECT_EQ(balanced_segments(5, 5), (Sizes{1, 1, 1, 1, 1}));
  EXPECT_EQ(balanced_segments(5, 1), (Sizes{5}));
}

TEST(Sequential, SegmentsAreBalancedByBytesWhenTheyAreKnown) {
  const std::vector<int64_t> bytes = {100, 1, 1, 1, 1, 96, 4};
  const auto sizes = balanced_segments(bytes, 3);
  ASSERT_EQ(sizes.size(), 3u);
  int64_t largest = 0, first = 0;
  for (const int64_t size : sizes) {
    ASSERT_GE(size, 1);
    int64_t sum = 0;
    for (int64_t i = first; i < first + size; ++i) sum += bytes[i];
    largest = std::max(largest, sum);
    first += size;
  }
  EXPECT_EQ(first, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(largest, 100);
}

TEST(Sequential, BytesPerLayerChooseTheSegments) {
  std::vector<std::function<Tensor(Tensor)>> layers(4, [](Tensor t) { return t.sin(); });
  const std::vector<int64_t> bytes = {1000, 1, 1, 1};
  auto x = torch::randn({4}).requires_grad_();
  const StatsDelta delta;
  auto y = checkpoint_sequential(layers, 2, x, std::span<const int64_t>(bytes));
  y.sum().backward();
  EXPECT_EQ(delta.replayed(), 2);  // 1 and 3 layers: the result of the first is the second's input
}

TEST(Sequential, EverySegmentIsCheckpointedTheLastOneToo) {
  constexpr int64_t kUnit = 64 * 64 * 4;
  std::vector<std::function<Tensor(Tensor)>> layers(6, [](Tensor t) { return t.sin(); });
  auto x = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto y = checkpoint_sequential(layers, 3, x);
  EXPECT_EQ(live.bytes(), 3 * kUnit);  // the inputs of the second and third segment, and y
}

TEST(Sequential, SegmentsOutsideOneToLayersAreRefused) {
  auto net = make_net();
  auto x = torch::randn({5, 6});
  for (const int64_t segments : {-1, 0, 7}) {
    EXPECT_THROW(checkpoint_sequential(net, segments, x), UsageError) << segments;
    EXPECT_THROW(balanced_segments(6, segments), UsageError) << segments;
  }
}

TEST(Sequential, SegmentsAreValidatedAlsoWithGradientsOff) {
  auto net = make_net();
  const torch::NoGradGuard no_grad;
  EXPECT_THROW(checkpoint_sequential(net, 7, torch::randn({5, 6})), UsageError);
}

TEST(Sequential, AnEmptySequentialIsRefused) {
  torch::nn::Sequential empty;
  EXPECT_THROW(checkpoint_sequential(empty, 1, torch::randn({2})), UsageError);
  EXPECT_THROW(balanced_segments(0, 1), UsageError);
}

TEST(Sequential, BytesForAnotherNumberOfLayersAreRefused) {
  auto net = make_net();
  const std::vector<int64_t> bytes = {1, 2, 3, 4, 5};
  EXPECT_THROW(checkpoint_sequential(net, 2, torch::randn({5, 6}), std::span<const int64_t>(bytes)), UsageError);
}

TEST(Sequential, ErrorsNameTheFunctionAndWhatToDo) {
  auto net = make_net();
  try {
    checkpoint_sequential(net, 9, torch::randn({5, 6}));
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.rfind("[", 0), 0u) << text;
    EXPECT_NE(text.find("9"), std::string::npos) << text;
    EXPECT_NE(text.find("6"), std::string::npos) << text;
  }
}

}  // namespace retrace::test::sequential
