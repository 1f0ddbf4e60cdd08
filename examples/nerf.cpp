// NeRF: learns a scene from rays, by a coarse field and a fine one that is sampled where the coarse one found
// something.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::indexing::None;
using torch::indexing::Slice;

torch::Tensor encode(const torch::Tensor& x, int octaves) {
  std::vector<torch::Tensor> waves{x};
  for (int i = 0; i < octaves; ++i) {
    waves.push_back(torch::sin(std::ldexp(1.0, i) * x));
    waves.push_back(torch::cos(std::ldexp(1.0, i) * x));
  }
  return torch::cat(waves, -1);
}

// Color and density at points, seen from a direction.
struct NerfImpl : nn::Module {
  static constexpr int kPlaces = 6, kDirections = 4;  // octaves

  explicit NerfImpl(int64_t width, int depth = 4) : skip_at(depth / 2) {
    const int64_t place = 3 + 6 * kPlaces, direction = 3 + 6 * kDirections;
    for (int i = 0; i < depth; ++i) {
      const int64_t in = i == 0 ? place : i == skip_at ? width + place : width;
      layers->push_back(nn::Linear(in, width));
    }
    register_module("layers", layers);
    density = register_module("density", nn::Linear(width, 1));
    feature = register_module("feature", nn::Linear(width, width));
    hidden = register_module("hidden", nn::Linear(width + direction, width / 2));
    color = register_module("color", nn::Linear(width / 2, 3));
  }

  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& points, const torch::Tensor& directions) {
    auto place = encode(points, kPlaces), h = place;
    for (size_t i = 0; i < layers->size(); ++i) {
      if (static_cast<int>(i) == skip_at) h = torch::cat({h, place}, -1);
      h = torch::relu(layers[i]->as<nn::Linear>()->forward(h));
    }
    auto seen = torch::relu(hidden(torch::cat({feature(h), encode(directions, kDirections)}, -1)));
    return {torch::sigmoid(color(seen)), torch::relu(density(h)).squeeze(-1)};
  }

  int skip_at;
  nn::ModuleList layers;
  nn::Linear density{nullptr}, feature{nullptr}, hidden{nullptr}, color{nullptr};
};
TORCH_MODULE(Nerf);

// What a camera sees along rays that are sampled at these depths, and how much each sample adds to it.
std::pair<torch::Tensor, torch::Tensor> render(Nerf& field, const torch::Tensor& origins,
                                               const torch::Tensor& directions, const torch::Tensor& depths) {
  auto points = origins.unsqueeze(1) + directions.unsqueeze(1) * depths.unsqueeze(2);
  auto [color, density] = field(points, directions.unsqueeze(1).expand_as(points));
  auto last = torch::full({depths.size(0), 1}, 1e10);
  auto lengths = torch::cat({depths.diff(), last}, 1);
  auto alpha = 1 - torch::exp(-density * lengths);
  auto light = torch::cumprod(1 - alpha + 1e-10, 1).roll(1, 1);
  light.index_put_({Slice(), 0}, 1.0);
  auto weights = alpha * light;
  return {(weights.unsqueeze(2) * color).sum(1), weights};
}

// More depths where the weights are large, by inverting their distribution.
torch::Tensor sample_where(const torch::Tensor& depths, const torch::Tensor& weights, int64_t count) {
  torch::NoGradGuard no_grad;
  auto cumulative = torch::cumsum(weights + 1e-5, 1);
  cumulative = (cumulative / cumulative.index({Slice(), Slice(-1, None)})).contiguous();
  auto index = torch::searchsorted(cumulative, torch::rand({depths.size(0), count})).clamp(0, depths.size(1) - 1);
  return std::get<0>(torch::sort(torch::cat({depths, depths.gather(1, index)}, 1), 1));
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(8);
  const int64_t rays = options.small ? 48 : 256, samples = options.small ? 8 : 32, width = options.small ? 16 : 96;

  Nerf coarse(width), fine(width);
  auto parameters = coarse->parameters();
  for (auto& parameter : fine->parameters()) parameters.push_back(parameter);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(5e-4));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto step = session.step();  // Retrace
    auto directions = F::normalize(torch::randn({rays, 3}), F::NormalizeFuncOptions().dim(1));
    auto origins = -4 * directions + 0.1 * torch::randn({rays, 3});
    auto target = torch::sigmoid(3 * directions);
    auto depths = torch::linspace(2, 6, samples) + torch::rand({rays, samples}) * (4.0 / samples);

    auto [rough, weights] = render(coarse, origins, directions, depths);
    auto [sharp, unused] = render(fine, origins, directions, sample_where(depths, weights, samples));
    auto loss = F::mse_loss(rough, target) + F::mse_loss(sharp, target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss %.9g\n", i, loss.item<double>());
  }
}
