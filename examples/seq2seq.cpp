// A Transformer that learns to reverse sentences: encoder, decoder, masks, label smoothing, a warm-up of the rate.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct TranslatorImpl : nn::Module {
  TranslatorImpl(int64_t words, int64_t width, int64_t layers, int64_t longest)
      : embedding(register_module("embedding", nn::Embedding(words, width))),
        transformer(register_module(
            "transformer",
            nn::Transformer(nn::TransformerOptions(width, 4, layers, layers).dim_feedforward(2 * width).dropout(0.1)))),
        generator(register_module("generator", nn::Linear(width, words))) {
    auto angle = torch::arange(longest).unsqueeze(1) * torch::exp(torch::arange(0, width, 2) * (-9.2 / width));
    position = register_buffer("position", torch::stack({angle.sin(), angle.cos()}, 2).flatten(1).unsqueeze(1));
  }

  torch::Tensor embed(const torch::Tensor& tokens) {
    auto scaled = embedding(tokens) * std::sqrt(static_cast<double>(position.size(2)));
    return torch::dropout(scaled + position.slice(0, 0, tokens.size(0)), 0.1, is_training());
  }

  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target) {
    auto causal = nn::TransformerImpl::generate_square_subsequent_mask(target.size(0));
    return generator(transformer(embed(source), embed(target), torch::Tensor(), causal));
  }

  nn::Embedding embedding;
  nn::Transformer transformer;
  nn::Linear generator;
  torch::Tensor position;
};
TORCH_MODULE(Translator);

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(12);
  const int64_t words = options.small ? 20 : 500, width = options.small ? 16 : 96, layers = options.small ? 1 : 3;
  const int64_t length = options.small ? 8 : 32, batch = options.small ? 16 : 24;

  Translator model(words, width, layers, length + 1);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1).betas({0.9, 0.98}).eps(1e-9));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    const double rate = std::min(std::pow(i, -0.5), i * std::pow(8.0, -1.5)) / width;
    static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).lr(rate);
    auto source = torch::randint(1, words, {length, batch}, torch::kLong);
    auto target = torch::cat({torch::zeros({1, batch}, torch::kLong), source.flip(0)});

    auto step = session.step();  // Retrace
    optimizer.zero_grad();
    auto scores = model(source, target.slice(0, 0, length));
    auto loss = F::cross_entropy(scores.reshape({-1, words}), target.slice(0, 1).reshape({-1}),
                                 F::CrossEntropyFuncOptions().label_smoothing(0.1));
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss %.9g\n", i, loss.item<double>());
  }
}
