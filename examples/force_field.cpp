// A neural force field. Atoms send messages to their neighbours, the energy is read off them, and forces are its
// gradient. It is trained on forces, by a double backward; between epochs it runs a simulation, which needs forces
// alone.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;

struct Neighbours {
  torch::Tensor from, to;
};

// All ordered pairs of atoms closer than the cutoff: another number of them in every configuration.
Neighbours neighbours_within(const torch::Tensor& positions, double cutoff) {
  torch::NoGradGuard no_grad;
  auto distance = torch::cdist(positions, positions).fill_diagonal_(2 * cutoff);
  auto pairs = torch::nonzero(distance < cutoff);
  return {pairs.select(1, 0).contiguous(), pairs.select(1, 1).contiguous()};
}

// A continuous-filter convolution, as in SchNet.
struct InteractionImpl : nn::Module {
  InteractionImpl(int64_t width, int64_t basis)
      : filter(
            register_module("filter", nn::Sequential(nn::Linear(basis, width), nn::SiLU(), nn::Linear(width, width)))),
        enter(register_module("enter", nn::Linear(nn::LinearOptions(width, width).bias(false)))),
        leave(
            register_module("leave", nn::Sequential(nn::Linear(width, width), nn::SiLU(), nn::Linear(width, width)))) {}

  torch::Tensor forward(const torch::Tensor& atoms, const torch::Tensor& edges, const torch::Tensor& cutoff,
                        const Neighbours& pairs) {
    auto messages = enter(atoms).index_select(0, pairs.from) * (filter->forward(edges) * cutoff);
    return atoms + leave->forward(torch::zeros_like(atoms).index_add(0, pairs.to, messages));
  }

  nn::Sequential filter;
  nn::Linear enter;
  nn::Sequential leave;
};
TORCH_MODULE(Interaction);

struct ForceFieldImpl : nn::Module {
  ForceFieldImpl(int64_t width, int64_t basis_size, int layers, double cutoff_radius)
      : cutoff(cutoff_radius),
        centers(register_buffer("centers", torch::linspace(0, cutoff_radius, basis_size))),
        species(register_module("species", nn::Embedding(4, width))),
        readout(register_module("readout",
                                nn::Sequential(nn::Linear(width, width / 2), nn::SiLU(), nn::Linear(width / 2, 1)))) {
    for (int i = 0; i < layers; ++i) interactions->push_back(Interaction(width, basis_size));
    register_module("interactions", interactions);
  }

  torch::Tensor energy(const torch::Tensor& positions, const torch::Tensor& kinds, const Neighbours& pairs) {
    auto offset = positions.index_select(0, pairs.from) - positions.index_select(0, pairs.to);
    auto distance = offset.square().sum(1, /*keepdim=*/true).sqrt();
    auto edges = torch::exp(-10 * (distance - centers).square());
    auto smooth = 0.5 * (torch::cos(distance * (M_PI / cutoff)) + 1);
    auto atoms = species(kinds);
    for (auto& layer : *interactions) atoms = layer->as<Interaction>()->forward(atoms, edges, smooth, pairs);
    return readout->forward(atoms).sum();
  }

  // With create_graph they can be trained on.
  torch::Tensor forces(torch::Tensor positions, const torch::Tensor& kinds, bool create_graph) {
    positions = positions.detach().requires_grad_();
    auto total = energy(positions, kinds, neighbours_within(positions, cutoff));
    return -torch::autograd::grad({total}, {positions}, {}, create_graph, create_graph)[0];
  }

  double cutoff;
  torch::Tensor centers;
  nn::Embedding species;
  nn::ModuleList interactions;
  nn::Sequential readout;
};
TORCH_MODULE(ForceField);

// What the field should learn: soft spheres.
torch::Tensor true_forces(const torch::Tensor& positions) {
  auto offset = positions.unsqueeze(1) - positions.unsqueeze(0);
  auto distance = (offset.square().sum(2, /*keepdim=*/true) + 1e-6).sqrt();
  return (offset / distance * torch::relu(1.5 - distance)).sum(1);
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(15);
  const int64_t count = options.small ? 24 : 160, width = options.small ? 16 : 64, basis = options.small ? 8 : 24;
  const double box = options.small ? 3 : 6;
  const int steps_per_epoch = 4, ticks = 3;

  ForceField field(width, basis, options.small ? 1 : 3, /*cutoff_radius=*/2.0);
  torch::optim::Adam optimizer(field->parameters(), torch::optim::AdamOptions(1e-3));
  auto kinds = torch::randint(4, {count}, torch::kLong);

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto positions = torch::rand({count, 3}) * box;
    auto step = session.step();  // Retrace
    if (i % steps_per_epoch != 0) {
      optimizer.zero_grad();
      auto loss = (field->forces(positions, kinds, /*create_graph=*/true) - true_forces(positions)).square().mean();
      loss.backward();
      optimizer.step();
      std::printf("step %2d: error of forces %.9g\n", i, loss.item<double>());
    } else {
      auto velocities = torch::zeros_like(positions);
      for (int tick = 0; tick < ticks; ++tick) {
        velocities += 0.01 * field->forces(positions, kinds, /*create_graph=*/false);
        positions += 0.01 * velocities;
      }
      std::printf("step %2d: kinetic energy %.9g\n", i, 0.5 * velocities.square().sum().item<double>());
    }
  }
}
