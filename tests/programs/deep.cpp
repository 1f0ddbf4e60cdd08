// Programs whose forward no single value cuts in two, large enough for segments to pay.
#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

constexpr int64_t kLevels = 3;

class DeepUNetImpl : public nn::Module {
 public:
  DeepUNetImpl() : bottom_(twice(kWidth << (kLevels - 1), kWidth << kLevels)), head_(nn::Conv2dOptions(kWidth, 2, 1)) {
    for (int64_t level = 0; level < kLevels; ++level) {
      const int64_t wide = kWidth << level;
      down_->push_back(twice(level == 0 ? 3 : wide / 2, wide));
      grow_->push_back(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2 * wide, wide, 2).stride(2)));
      up_->push_back(twice(2 * wide, wide));
    }
    register_module("down", down_);
    register_module("bottom", bottom_);
    register_module("grow", grow_);
    register_module("up", up_);
    register_module("head", head_);
  }
  Tensor forward(Tensor x) {
    std::vector<Tensor> skips;
    for (size_t level = 0; level < kLevels; ++level) {
      skips.push_back(down_->ptr<nn::SequentialImpl>(level)->forward(x));
      x = F::max_pool2d(skips.back(), F::MaxPool2dFuncOptions(2));
    }
    x = bottom_->forward(x);
    for (size_t level = kLevels; level-- > 0;) {
      x = torch::cat({skips.back(), grow_->ptr<nn::ConvTranspose2dImpl>(level)->forward(x)}, 1);
      skips.pop_back();
      x = up_->ptr<nn::SequentialImpl>(level)->forward(x);
    }
    return head_(x);
  }

 private:
  static constexpr int64_t kWidth = 8;
  static nn::Sequential twice(int64_t from, int64_t to) {
    return nn::Sequential(ConvNormRelu(from, to), ConvNormRelu(to, to));
  }

  nn::ModuleList down_, grow_, up_;
  nn::Sequential bottom_;
  nn::Conv2d head_;
};
TORCH_MODULE(DeepUNet);

// With oneDNN, LibTorch 2 has one operator for a whole layer of an LSTM: nothing to cut, and at most half of two layers
// to save.
class WithoutOneDnn {
 public:
  WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(false); }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(before_); }
  WithoutOneDnn(const WithoutOneDnn&) = delete;
  WithoutOneDnn& operator=(const WithoutOneDnn&) = delete;

 private:
  const bool before_ = at::globalContext().userEnabledMkldnn();
};

}  // namespace

Program deep_unet() {
  DeepUNet net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor images = torch::randn({2, 3, 32, 32}), labels = torch::randint(0, 2, {2, 32, 32});
    return F::cross_entropy(net(images), labels);
  });
}

Program deep_lstm() {
  constexpr int64_t kTokens = 30, kEmbedding = 16, kWidth = 32, kBatch = 8, kLength = 48;
  nn::Embedding embedding(kTokens, kEmbedding);
  nn::LSTM lstm(nn::LSTMOptions(kEmbedding, kWidth).num_layers(2).dropout(0.2).batch_first(true));
  nn::Linear head(kWidth, kTokens);
  return train_with_adam(parameters_of(embedding, lstm, head), [embedding, lstm, head]() mutable {
    const Tensor tokens = torch::randint(0, kTokens, {kBatch, kLength});
    const WithoutOneDnn step_by_step;
    const Tensor states = std::get<0>(lstm(embedding(tokens)));
    return F::cross_entropy(head(states).flatten(0, 1), tokens.flatten());
  });
}

// Its gates are written in place, and each is saved by a clone made in between.
Program deep_gru() {
  constexpr int64_t kTokens = 30, kWidth = 32, kBatch = 8, kLength = 48;
  nn::Embedding embedding(kTokens, kWidth);
  nn::GRU gru(nn::GRUOptions(kWidth, kWidth).batch_first(true));
  nn::Linear head(kWidth, kTokens);
  return train_with_adam(parameters_of(embedding, gru, head), [embedding, gru, head]() mutable {
    const Tensor tokens = torch::randint(0, kTokens, {kBatch, kLength});
    const Tensor states = std::get<0>(gru(embedding(tokens)));
    return F::cross_entropy(head(states).flatten(0, 1), tokens.flatten());
  });
}

// Autograd saves how the springs are stretched, neither position nor velocity.
Program mass_and_springs() {
  constexpr int64_t kPoints = 256, kSprings = 512, kSteps = 48;
  const Tensor from = torch::randint(0, kPoints, {kSprings}), to = torch::randint(0, kPoints, {kSprings});
  const Tensor start = torch::rand({kPoints, 3}), stiffness = torch::full({kSprings, 1}, 0.3).requires_grad_();
  return train_with_adam({stiffness}, [=] {
    Tensor position = start, velocity = torch::zeros_like(start);
    for (int64_t i = 0; i < kSteps; ++i) {
      const Tensor pull = stiffness * (position.index_select(0, to) - position.index_select(0, from));
      const Tensor force = torch::zeros_like(position).index_add(0, from, pull).index_add(0, to, -pull);
      velocity = 0.99 * (velocity + 0.01 * force);
      position = position + 0.01 * velocity;
    }
    return position.square().mean();
  });
}

// The force on a particle is the gradient of its energy, three times a step: each backward goes through the one before
// it.
Program leapfrog() {
  constexpr int64_t kParticles = 64, kWidth = 32, kSteps = 12;
  nn::Sequential energy = mlp({4, kWidth, kWidth, 1});
  return train_with_adam(energy->parameters(), [energy]() mutable {
    Tensor q = torch::randn({kParticles, 2}).requires_grad_(), p = torch::randn({kParticles, 2}).requires_grad_();
    const auto forces = [&energy](const Tensor& at, const Tensor& moving) {
      const Tensor total = energy->forward(torch::cat({at, moving}, 1)).sum();
      return torch::autograd::grad({total}, {at, moving}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    };
    for (int64_t i = 0; i < kSteps; ++i) {
      p = p - 0.05 * forces(q, p)[0];
      q = q + 0.1 * forces(q, p)[1];
      p = p - 0.05 * forces(q, p)[0];
    }
    return q.square().mean() + p.square().mean();
  });
}

Program penalized_mlp() {
  constexpr int64_t kRows = 1024, kWidth = 32;
  nn::Sequential net =
      mlp({kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, 1});
  const auto parameters = net->parameters();
  return train_with_adam(parameters, [net, parameters]() mutable {
    Tensor penalty = torch::zeros({});
    for (const Tensor& p : parameters) penalty = penalty + p.square().sum();
    const Tensor x = torch::randn({kRows, kWidth}), y = x.sum(1, /*keepdim=*/true).tanh();
    return F::mse_loss(net->forward(x), y) + 1e-4 * penalty;
  });
}

}  // namespace retrace::test::programs
