// Kinds of layers inside a region: state that advances once, recurrent networks, custom functions, TorchScript.
#include <torch/script.h>
#include <torch/torch.h>

#include <retrace/retrace.h>

#include "support/counting.h"
#include "support/run.h"

namespace retrace::test::layers {

using torch::Tensor;

template <class Module>
void append_state(Tensors& results, const Module& module) {
  for (auto& p : module->parameters()) results.push_back(p.grad());
  for (auto& b : module->buffers()) results.push_back(b.clone());
}

TEST(Layers, BatchNormWithABiasThatIsOneOfItsStatistics) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    const Tensor weight = torch::randn({5}).requires_grad_(), mean = torch::zeros({5}), both = torch::ones({5});
    auto x = torch::randn({4, 5}).requires_grad_();
    auto y = wrap([&](Tensor t) { return torch::batch_norm(t, weight, both, mean, both, true, 0.1, 1e-5, false); }, x);
    y.pow(2).sum().backward();
    return {y, x.grad(), weight.grad(), mean, both};
  });
}

TEST(Layers, BatchNormStatisticsAdvanceOncePerStep) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Sequential net(torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                              torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(4).momentum(0.3)));
    auto x = torch::randn({2, 3, 6, 6});
    Tensors results;
    for (int step = 1; step <= 3; ++step) {
      auto y = wrap([&](Tensor t) { return net->forward(t).exp(); }, x);
      y.mean().backward();
      EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int64_t>(), step);
      results.push_back(y);
      append_state(results, net);
    }
    return results;
  });
}

TEST(Layers, BatchNormInEvaluationMode) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::BatchNorm1d norm(4);
    auto x = torch::randn({5, 4}).requires_grad_();
    norm(x.detach());
    norm->eval();
    auto y = wrap([&](Tensor t) { return norm(t.sin()).exp(); }, x);
    y.sum().backward();
    Tensors results = {y, x.grad()};
    append_state(results, norm);
    return results;
  });
}

// One power iteration per forward, in place and outside autograd, as spectral normalisation does.
class SpectralImpl : public torch::nn::Module {
 public:
  SpectralImpl() {
    weight_ = register_parameter("weight", torch::randn({4, 4}));
    u_ = register_buffer("u", unit(torch::randn({4})));
    v_ = register_buffer("v", torch::zeros({4}));
  }
  Tensor forward(const Tensor& x) {
    {
      const torch::NoGradGuard no_grad;
      v_.copy_(unit(weight_.t().mv(u_)));
      u_.copy_(unit(weight_.mv(v_)));
    }
    auto sigma = torch::dot(u_.clone(), weight_.mv(v_.clone()));
    return x.mm(weight_ / sigma).tanh();
  }

 private:
  static Tensor unit(const Tensor& t) { return t / t.norm(); }
  Tensor weight_, u_, v_;
};
TORCH_MODULE(Spectral);

TEST(Layers, SpectralNormVectorsAdvanceOncePerStep) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    Spectral layer;
    auto x = torch::randn({3, 4}).requires_grad_();
    Tensors results;
    for (int step = 0; step < 3; ++step) {
      auto y = wrap([&](Tensor t) { return layer(t).exp(); }, x);
      y.sum().backward();
      results.push_back(y);
      append_state(results, layer);
    }
    results.push_back(x.grad());
    return results;
  });
}

TEST(Layers, AKeyValueCacheGrowsOncePerStep) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Linear key(4, 4);
    Tensor cache = torch::zeros({0, 4});
    auto x = torch::randn({2, 4}).requires_grad_();
    for (int step = 0; step < 3; ++step) {
      auto y = wrap(
          [&](Tensor t) {
            auto k = key(t);
            cache = torch::cat({cache, k.detach()});
            return t.mm(cache.t()).softmax(1).mm(cache) * k;
          },
          x);
      y.sum().backward();
      EXPECT_EQ(cache.size(0), 2 * (step + 1));
    }
    return {cache, x.grad(), key->weight.grad()};
  });
}

template <class Recurrent>
void expect_recurrent_parity(const std::function<Recurrent()>& make) {
  expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
    auto net = make();
    auto x = torch::randn({5, 2, 4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return std::get<0>(net(t.sin())).exp(); }, x);
    y.sum().backward();
    Tensors results = {y, x.grad()};
    append_state(results, net);
    return results;
  });
}

TEST(Layers, Rnn) {
  using namespace torch::nn;
  expect_recurrent_parity<RNN>([] { return RNN(RNNOptions(4, 6).num_layers(2).dropout(0.3)); });
}

TEST(Layers, Lstm) {
  using namespace torch::nn;
  expect_recurrent_parity<LSTM>([] { return LSTM(LSTMOptions(4, 6).num_layers(2).dropout(0.3).bidirectional(true)); });
}

TEST(Layers, Gru) {
  using namespace torch::nn;
  expect_recurrent_parity<GRU>([] { return GRU(GRUOptions(4, 6).num_layers(2).dropout(0.3)); });
}

TEST(Layers, LstmCellUnrolledWithStatesAcrossRegions) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::LSTMCell cell(4, 6);
    auto x = torch::randn({3, 2, 4}).requires_grad_();
    std::tuple<Tensor, Tensor> state = {torch::zeros({2, 6}), torch::zeros({2, 6})};
    for (int i = 0; i < 3; ++i) {
      state = wrap([&](Tensor t, std::tuple<Tensor, Tensor> s) { return cell(t.exp(), s); }, x[i], state);
    }
    (std::get<0>(state) * std::get<1>(state)).sum().backward();
    Tensors results = {std::get<0>(state), std::get<1>(state), x.grad()};
    append_state(results, cell);
    return results;
  });
}

TEST(Layers, EmbeddingAndCrossEntropy) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Embedding embedding(10, 6);
    torch::nn::Linear head(6, 10);
    auto tokens = torch::randint(10, {3, 4}, torch::kLong);
    auto loss = wrap(
        [&](Tensor t) {
          auto logits = head(embedding(t).tanh()).view({-1, 10});
          return torch::nn::functional::cross_entropy(logits, t.flatten().roll(1)) +
                 torch::nn::functional::nll_loss(logits.log_softmax(1), t.flatten());
        },
        tokens);
    loss.backward();
    return {loss, embedding->weight.grad(), head->weight.grad(), head->bias.grad()};
  });
}

TEST(Layers, EmbeddingBagAndSparseGradients) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 6).sparse(true));
    torch::nn::EmbeddingBag bag(torch::nn::EmbeddingBagOptions(10, 6).mode(torch::kMean));
    auto tokens = torch::randint(10, {3, 4}, torch::kLong);
    auto y = wrap([&](Tensor t) { return embedding(t).sum(1).tanh() * bag(t).exp(); }, tokens);
    y.sum().backward();
    return {y, embedding->weight.grad().to_dense(), bag->weight.grad()};
  });
}

TEST(Layers, ConvolutionsPoolingAndNormalisations) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    using namespace torch::nn;
    Sequential net(
        Conv2d(Conv2dOptions(3, 4, 3).padding(1)), GroupNorm(GroupNormOptions(2, 4)), GELU(),
        MaxPool2d(MaxPool2dOptions(2)), ConvTranspose2d(ConvTranspose2dOptions(4, 4, 2).stride(2)),
        InstanceNorm2d(InstanceNorm2dOptions(4).affine(true).track_running_stats(true)), Softplus(),
        Upsample(UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear).align_corners(false)),
        AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({2, 2})), Dropout2d(0.3), Flatten(), Linear(16, 3));
    auto x = torch::randn({2, 3, 8, 8}).requires_grad_();
    auto y = wrap([&](Tensor t) { return net->forward(t); }, x);
    y.square().sum().backward();
    Tensors results = {y, x.grad()};
    append_state(results, net);
    return results;
  });
}

TEST(Layers, MultiheadAttentionAndTransformerLayer) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    torch::nn::TransformerEncoderLayer layer(
        torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.2));
    auto x = torch::randn({4, 2, 8}).requires_grad_();
    auto y = wrap([&](Tensor t) { return layer(t); }, x);
    y.square().sum().backward();
    Tensors results = {y, x.grad()};
    append_state(results, layer);
    return results;
  });
}

// Saves an input, an output and an intermediate.
struct SineTimes : torch::autograd::Function<SineTimes> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, Tensor w) {
    auto sine = x.sin();
    auto y = sine * w;
    context->save_for_backward({x, w, sine, y});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto g = gradients[0] * (1 + 0 * saved[3]);
    return {g * saved[0].cos() * saved[1], g * saved[2]};
  }
};

TEST(Layers, CustomFunctionSavingInputsAndOutputs) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return SineTimes::apply(SineTimes::apply(t.exp(), w), w.tanh()).sin(); }, x);
    y.sum().backward();
    return {y, x.grad(), w.grad()};
  });
}

TEST(Layers, CustomFunctionTwiceDifferentiated) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto x = torch::randn({4}).requires_grad_();
    auto w = torch::randn({4}).requires_grad_();
    auto y = wrap([&](Tensor t) { return SineTimes::apply(t.exp(), w).sin(); }, x);
    auto g = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    g.square().sum().backward();
    return {y, g, x.grad(), w.grad()};
  });
}

TEST(Layers, CustomFunctionForgetsWhatItSaved) {
  auto x = torch::randn({64, 64}).requires_grad_();
  auto w = torch::randn({64, 64}).requires_grad_();
  const LiveDelta live;
  auto loss = checkpoint([&](Tensor t) { return SineTimes::apply(t.exp(), w).sum(); }, x);
  EXPECT_EQ(live.bytes(), 4);
}

TEST(Layers, TorchScriptFunction) {
  // The executor profiles first and optimises later, so each run compiles afresh and goes through all of its stages.
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto unit = torch::jit::compile(R"(
def f(x, w):
    h = x
    for i in range(4):
        h = torch.tanh(torch.mm(h, w)) * torch.sigmoid(h) + x
    return torch.dropout(h, 0.2, True).exp()
)");
    auto x = torch::randn({4, 4}).requires_grad_();
    auto w = torch::randn({4, 4}).requires_grad_();
    Tensors results;
    for (int stage = 0; stage < 4; ++stage) {
      auto y = wrap([&](Tensor t) { return unit->run_method("f", t.sin(), w).toTensor().cos(); }, x);
      auto gradients = torch::autograd::grad({y.sum()}, {x, w});
      results.insert(results.end(), {y, gradients[0], gradients[1]});
    }
    return results;
  });
}

TEST(Layers, TorchScriptModule) {
  torch::jit::Module module("m");
  module.register_parameter("weight", torch::randn({4, 4}), false);
  module.register_buffer("count", torch::zeros({}));
  module.define(R"(
def forward(self, x):
    self.count += 1
    return torch.relu(torch.mm(x, self.weight)).exp()
)");
  expect_same_as_plain([&](const Wrap& wrap) -> Tensors {
    auto weight = module.attr("weight").toTensor();
    auto count = module.attr("count").toTensor();
    weight.mutable_grad() = Tensor();
    count.zero_();
    auto x = torch::randn({2, 4}).requires_grad_();
    for (int i = 0; i < 3; ++i) {
      auto y = wrap([&](Tensor t) { return module.forward({t}).toTensor().sin(); }, x);
      y.sum().backward();
    }
    EXPECT_EQ(count.item<double>(), 3);
    auto gradient = weight.grad();
    weight.mutable_grad() = Tensor();
    return {gradient, x.grad(), count.clone()};
  });
}

TEST(Layers, MemoryWrittenBehindTheDispatchersBack) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto w = torch::randn({4}).requires_grad_();
    float next = 0;
    auto y = wrap([&] {
      auto raw = torch::empty({4});
      for (int i = 0; i < 4; ++i) raw.data_ptr<float>()[i] = next++;
      return (w * raw.sin()).exp();
    });
    y.sum().backward();
    EXPECT_EQ(next, 4);
    return {y, w.grad()};
  });
}

TEST(Layers, SparseAndQuantizedTensorsAreKept) {
  expect_same_as_plain([](const Wrap& wrap) -> Tensors {
    auto w = torch::randn({4, 4}).requires_grad_();
    auto dense = torch::eye(4) * torch::arange(4);
    auto y = wrap([&] {
      auto sparse = dense.to_sparse();
      auto quantized = torch::quantize_per_tensor(dense, 0.1, 0, torch::kQUInt8);
      return (at::_sparse_mm(sparse, w) + torch::mm(quantized.dequantize(), w)).exp();
    });
    y.sum().backward();
    return {y, w.grad()};
  });
}

}  // namespace retrace::test::layers
