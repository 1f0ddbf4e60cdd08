// Programs that render or simulate: NeRF, Gaussian splatting, a force field.
#include <cmath>

#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

// -- NeRF --

constexpr int64_t kPointBands = 6, kDirectionBands = 2, kFieldWidth = 64;

Tensor positional_encoding(const Tensor& x, int64_t bands) {
  std::vector<Tensor> parts{x};
  for (int64_t i = 0; i < bands; ++i) {
    const double frequency = std::pow(2.0, i);
    parts.push_back(torch::sin(x * frequency));
    parts.push_back(torch::cos(x * frequency));
  }
  return torch::cat(parts, -1);
}
constexpr int64_t encoded_width(int64_t bands) { return 3 + 3 * 2 * bands; }

struct Radiance {
  Tensor color, density;
};

class FieldImpl : public nn::Module {
 public:
  FieldImpl()
      : before_(mlp({encoded_width(kPointBands), kFieldWidth, kFieldWidth, kFieldWidth})),
        after_(mlp({encoded_width(kPointBands) + kFieldWidth, kFieldWidth, kFieldWidth})),
        density_(kFieldWidth, 1),
        feature_(kFieldWidth, kFieldWidth),
        color_(mlp({kFieldWidth + encoded_width(kDirectionBands), kFieldWidth / 2, 3})) {
    register_module("before", before_);
    register_module("after", after_);
    register_module("density", density_);
    register_module("feature", feature_);
    register_module("color", color_);
  }
  Radiance at(const Tensor& points, const Tensor& directions) {
    const Tensor where = positional_encoding(points, kPointBands);
    const Tensor early = torch::relu(before_->forward(where));
    const Tensor late = torch::relu(after_->forward(torch::cat({where, early}, -1)));
    const Tensor seen = torch::cat({feature_(late), positional_encoding(directions, kDirectionBands)}, -1);
    return {torch::sigmoid(color_->forward(seen)), density_(late).squeeze(-1)};
  }

 private:
  nn::Sequential before_, after_;
  nn::Linear density_, feature_;
  nn::Sequential color_;
};
TORCH_MODULE(Field);

// How much of the light behind each of these reaches the eye, the first of them in front: rows × layers.
Tensor transmittance(const Tensor& opacity) {
  const Tensor first = torch::ones_like(opacity.slice(1, 0, 1));
  return torch::cumprod(torch::cat({first, 1 - opacity.slice(1, 0, -1) + 1e-10}, 1), 1);
}

struct Rendered {
  Tensor color, weights;
};

struct Rays {
  Tensor origin, direction;

  // At these depths (rays × samples) along each ray.
  Rendered render(Field& field, const Tensor& depths) const {
    const Tensor points = origin.unsqueeze(1) + direction.unsqueeze(1) * depths.unsqueeze(-1);
    const Radiance found = field->at(points, F::normalize(direction).unsqueeze(1).expand_as(points));
    const Tensor gaps = depths.slice(1, 1) - depths.slice(1, 0, -1);
    const Tensor lengths = torch::cat({gaps, torch::full_like(gaps.slice(1, 0, 1), 1e10)}, 1);
    const Tensor opacity = 1 - torch::exp(-torch::relu(found.density) * lengths);
    const Tensor weights = opacity * transmittance(opacity);
    return {(weights.unsqueeze(-1) * found.color).sum(1), weights};
  }
};

// As many depths again, most of them where the weights are large.
Tensor refined(const Tensor& depths, const Tensor& weights) {
  const torch::NoGradGuard no_grad;
  const Tensor positive = weights + 1e-5;
  const Tensor distribution = torch::cumsum(positive / positive.sum(-1, /*keepdim=*/true), -1);
  const Tensor bins = torch::searchsorted(distribution, torch::rand_like(depths)).clamp_max(depths.size(1) - 1);
  return std::get<0>(torch::sort(torch::cat({depths, depths.gather(1, bins)}, 1), 1));
}

// -- Splatting --

// The places of a square image's pixels: pixels × 1 × 2.
Tensor pixel_grid(int64_t side) {
  const Tensor line = torch::arange(side).to(torch::kFloat);
  const Tensor rows = line.unsqueeze(1).expand({side, side}), columns = line.unsqueeze(0).expand({side, side});
  return torch::stack({rows, columns}, -1).view({-1, 1, 2});
}

}  // namespace

Program nerf() {
  constexpr int64_t kRays = 32, kSamples = 12;
  Field coarse, fine;
  return train_with_adam(parameters_of(coarse, fine), [coarse, fine]() mutable {
    const Rays rays{torch::randn({kRays, 3}), torch::randn({kRays, 3})};
    const Tensor target = torch::rand({kRays, 3});
    const Tensor depths = torch::linspace(2.0, 6.0, kSamples) + torch::rand({kRays, kSamples}) * 0.1;
    const Rendered first = rays.render(coarse, depths);
    const Rendered second = rays.render(fine, refined(depths, first.weights));
    return F::mse_loss(first.color, target) + F::mse_loss(second.color, target);
  });
}

Program splatting() {
  constexpr int64_t kGaussians = 100, kSide = 24;
  const Tensor center = (torch::randn({kGaussians, 2}) * 6 + 12).requires_grad_();
  const Tensor log_size = torch::zeros({kGaussians, 2}).requires_grad_();
  const Tensor color = torch::randn({kGaussians, 3}).requires_grad_();
  const Tensor strength = torch::zeros({kGaussians}).requires_grad_();
  return train_with_adam({center, log_size, color, strength}, [=] {
    const Tensor order = torch::argsort(torch::rand({kGaussians}));  // by depth, from a camera somewhere
    const auto sorted = [&](const Tensor& t) { return t.index_select(0, order); };
    const Tensor distance = (pixel_grid(kSide) - sorted(center)) / torch::exp(sorted(log_size));
    const Tensor falloff = torch::exp(-0.5 * distance.pow(2).sum(-1));
    const Tensor opacity = (torch::sigmoid(sorted(strength)) * falloff).clamp_max(0.99);
    const Tensor image = (opacity * transmittance(opacity)).mm(torch::sigmoid(sorted(color)));
    return F::l1_loss(image, torch::rand({kSide * kSide, 3}));
  });
}

Program force_field() {
  constexpr int64_t kMolecules = 8, kAtoms = 8, kBasis = 16;
  nn::Sequential energy_of(nn::Linear(kBasis, 64), nn::SiLU(), nn::Linear(64, 64), nn::SiLU(), nn::Linear(64, 1));
  return train_with_adam(energy_of->parameters(), [energy_of]() mutable {
    const Tensor atoms = torch::randn({kMolecules, kAtoms, 3}).requires_grad_();
    const Tensor apart = atoms.unsqueeze(1) - atoms.unsqueeze(2);
    const Tensor distance = (apart.pow(2).sum(-1) + 1e-3).sqrt();
    const Tensor basis = torch::exp((distance.unsqueeze(-1) - torch::linspace(0.0, 4.0, kBasis)).pow(2) * -4);
    const Tensor energy = energy_of->forward(basis).sum();
    const Tensor forces =
        -torch::autograd::grad({energy}, {atoms}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return (energy / kMolecules).pow(2) * 1e-3 + (forces - 1).pow(2).mean();
  });
}

}  // namespace retrace::test::programs
