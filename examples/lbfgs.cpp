// Regression by L-BFGS on the whole data set, with an L2 penalty: the optimizer runs forward and backward itself, as
// often as its line search likes.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(14);
  const int64_t rows = options.small ? 512 : 4096, features = options.small ? 8 : 32, width = options.small ? 16 : 128;

  auto x = torch::randn({rows, features});
  auto y = torch::sin(x.slice(1, 0, 1)) * x.slice(1, 1, 2) + 0.1 * torch::randn({rows, 1});
  nn::Sequential net(nn::Linear(features, width), nn::Tanh(), nn::Linear(width, width), nn::Tanh(),
                     nn::Linear(width, width), nn::Tanh(), nn::Linear(width, width), nn::Tanh(), nn::Linear(width, 1));
  torch::optim::LBFGS optimizer(
      net->parameters(), torch::optim::LBFGSOptions(1).max_iter(4).history_size(5).line_search_fn("strong_wolfe"));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    int evaluations = 0;
    auto closure = [&] {
      ++evaluations;
      optimizer.zero_grad();
      auto penalty = torch::zeros({});
      for (auto& parameter : net->parameters()) penalty = penalty + parameter.square().sum();
      auto loss = F::mse_loss(net->forward(x), y) + 1e-4 * penalty;
      loss.backward();
      return loss;
    };
    auto step = session.step();  // Retrace
    auto loss = optimizer.step(closure);
    std::printf("step %2d: loss %.9g after %d evaluations\n", i, loss.item<double>(), evaluations);
  }
}
