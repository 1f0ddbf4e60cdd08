// A language model of two LSTM layers on sentences of every length: no step has the shapes of another.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct LanguageModelImpl : nn::Module {
  LanguageModelImpl(int64_t words, int64_t width)
      : embedding(register_module("embedding", nn::Embedding(words, width))),
        lstm(register_module("lstm", nn::LSTM(nn::LSTMOptions(width, width).num_layers(2).dropout(0.2)))),
        dropout(register_module("dropout", nn::Dropout(0.2))),
        decoder(register_module("decoder", nn::Linear(width, words))) {}

  torch::Tensor forward(const torch::Tensor& tokens) {
    auto [output, state] = lstm(dropout(embedding(tokens)));
    return decoder(dropout(output));
  }

  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Dropout dropout;
  nn::Linear decoder;
};
TORCH_MODULE(LanguageModel);

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(1);
  const int64_t words = options.small ? 30 : 400, width = options.small ? 16 : 192, batch = 32;
  const int64_t shortest = options.small ? 5 : 20, longest = options.small ? 12 : 60;

  LanguageModel model(words, width);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    const int64_t length = torch::randint(shortest, longest + 1, {1}).item<int64_t>();
    auto text = torch::randint(words, {length + 1, batch}, torch::kLong);

    auto step = session.step();  // Retrace
    optimizer.zero_grad();
    auto scores = model(text.slice(0, 0, length));
    auto loss = F::cross_entropy(scores.flatten(0, 1), text.slice(0, 1).flatten());
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 0.25);
    optimizer.step();
    std::printf("step %2d, %2d words: loss %.9g\n", i, static_cast<int>(length), loss.item<double>());
  }
}
