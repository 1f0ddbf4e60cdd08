// A search for hyperparameters: four threads train four nets side by side, each with its own session. A budget is the
// whole process's.
#include <torch/torch.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct Trial {
  double learning_rate;
  int64_t width;
  std::vector<double> losses;
};

void train(Trial& trial, const examples::Options& options, uint64_t seed) {
  // The default generator is the process's; a thread that wants its own numbers brings its own.
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  const int64_t batch = options.small ? 128 : 512, features = options.small ? 16 : 64;
  auto teacher = torch::randn({features, 1}, generator);

  nn::Sequential net;
  for (int64_t i = 0, in = features; i < 6; ++i, in = trial.width) {
    net->push_back(nn::Linear(in, trial.width));
    net->push_back(nn::LayerNorm(nn::LayerNormOptions({trial.width})));
    net->push_back(nn::GELU());
  }
  net->push_back(nn::Linear(trial.width, 1));
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) parameter.normal_(0, 0.1, generator);
  }
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(trial.learning_rate));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto x = torch::randn({batch, features}, generator);
    auto y = torch::tanh(x.mm(teacher));
    auto step = session.step();  // Retrace
    optimizer.zero_grad();
    auto loss = F::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    trial.losses.push_back(loss.item<double>());
  }
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  const int64_t width = options.small ? 16 : 128;
  std::vector<Trial> trials{{1e-2, width, {}}, {1e-3, width, {}}, {1e-2, 2 * width, {}}, {1e-3, 2 * width, {}}};
  std::vector<std::thread> threads;
  for (size_t k = 0; k < trials.size(); ++k)
    threads.emplace_back([&, k] { train(trials[k], options, /*seed=*/11 + k); });
  for (auto& thread : threads) thread.join();
  for (const Trial& trial : trials) {
    std::printf("rate %g, width %d:", trial.learning_rate, static_cast<int>(trial.width));
    for (const double loss : trial.losses) std::printf(" %.9g", loss);
    std::printf("\n");
  }
}
