// MAML: learns initial weights from which a few steps of gradient descent fit any sine wave. The outer gradient goes
// through the inner ones: a double backward.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "options.h"

namespace F = torch::nn::functional;
using Weights = std::vector<torch::Tensor>;

Weights initial_weights(const std::vector<int64_t>& widths) {
  Weights weights;
  for (size_t i = 1; i < widths.size(); ++i) {
    auto matrix = torch::empty({widths[i], widths[i - 1]}, torch::requires_grad());
    torch::nn::init::xavier_normal_(matrix);
    weights.push_back(matrix);
    weights.push_back(torch::zeros({widths[i]}, torch::requires_grad()));
  }
  return weights;
}

torch::Tensor predict(const Weights& weights, torch::Tensor x) {
  for (size_t i = 0; i < weights.size(); i += 2) {
    if (i > 0) x = torch::relu(x);
    x = F::linear(x, weights[i], weights[i + 1]);
  }
  return x;
}

Weights adapt(Weights weights, const torch::Tensor& x, const torch::Tensor& y, int inner_steps) {
  for (int i = 0; i < inner_steps; ++i) {
    auto loss = F::mse_loss(predict(weights, x), y);
    auto gradients = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/true, /*create_graph=*/true);
    for (size_t k = 0; k < weights.size(); ++k) weights[k] = weights[k] - 0.01 * gradients[k];
  }
  return weights;
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(3);
  const int tasks = options.small ? 2 : 8, inner_steps = options.small ? 2 : 5;
  const int64_t shots = options.small ? 64 : 512, width = options.small ? 16 : 100;

  Weights weights = initial_weights({1, width, width, 1});
  torch::optim::Adam optimizer(weights, torch::optim::AdamOptions(1e-3));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto step = session.step();  // Retrace
    optimizer.zero_grad();
    torch::Tensor total = torch::zeros({});
    for (int task = 0; task < tasks; ++task) {
      auto amplitude = torch::empty({1}).uniform_(0.1, 5.0), phase = torch::empty({1}).uniform_(0, M_PI);
      auto sine = [&](const torch::Tensor& x) { return amplitude * torch::sin(x + phase); };
      auto support = torch::empty({shots, 1}).uniform_(-5, 5), query = torch::empty({shots, 1}).uniform_(-5, 5);
      auto adapted = adapt(weights, support, sine(support), inner_steps);
      total = total + F::mse_loss(predict(adapted, query), sine(query));
    }
    auto loss = total / tasks;
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss after %d inner steps %.9g\n", i, inner_steps, loss.item<double>());
  }
}
