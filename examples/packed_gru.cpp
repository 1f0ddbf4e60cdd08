// Sorts names by language with a bidirectional GRU: each batch is a packed sequence of names of several lengths.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace rnn = torch::nn::utils::rnn;

struct ClassifierImpl : nn::Module {
  ClassifierImpl(int64_t letters, int64_t width, int64_t languages)
      : embedding(register_module("embedding", nn::Embedding(letters, width))),
        gru(register_module("gru", nn::GRU(nn::GRUOptions(width, width).bidirectional(true)))),
        head(register_module("head", nn::Linear(2 * width, languages))) {}

  torch::Tensor forward(const torch::Tensor& names, const torch::Tensor& lengths) {
    auto packed = rnn::pack_padded_sequence(embedding(names), lengths, /*batch_first=*/false, /*enforce_sorted=*/false);
    auto [output, hidden] = gru->forward_with_packed_input(packed);
    return head(torch::cat({hidden[0], hidden[1]}, 1));
  }

  nn::Embedding embedding;
  nn::GRU gru;
  nn::Linear head;
};
TORCH_MODULE(Classifier);

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(2);
  const int64_t letters = 58, languages = 18, longest = options.small ? 9 : 20;
  const int64_t batch = options.small ? 96 : 256, width = options.small ? 12 : 128;

  Classifier model(letters, width, languages);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto names = torch::randint(letters, {longest, batch}, torch::kLong);
    auto lengths = torch::randint(2, longest + 1, {batch}, torch::kLong);
    lengths[0] = longest;
    auto language = torch::randint(languages, {batch}, torch::kLong);

    auto step = session.step();  // Retrace
    auto scores = model(names, lengths);
    auto loss = F::cross_entropy(scores, language);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    auto right = (scores.argmax(1) == language).sum().item<int64_t>();
    std::printf("step %2d: loss %.9g, %d of %d right\n", i, loss.item<double>(), static_cast<int>(right),
                static_cast<int>(batch));
  }
}
