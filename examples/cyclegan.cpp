// CycleGAN: two generators turn horses into zebras and back, two discriminators judge them. Six passes through the
// generators stand behind one loss.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct ResidualImpl : nn::Module {
  explicit ResidualImpl(int64_t channels) {
    auto conv = [&] {
      return nn::Conv2d(nn::Conv2dOptions(channels, channels, 3).padding(1).padding_mode(torch::kReflect));
    };
    auto norm = [&] { return nn::InstanceNorm2d(channels); };
    body = register_module("body", nn::Sequential(conv(), norm(), nn::ReLU(nn::ReLUOptions(true)), conv(), norm()));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + body->forward(x); }

  nn::Sequential body;
};
TORCH_MODULE(Residual);

nn::Sequential make_generator(int64_t width, int blocks) {
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, width, 7).padding(3).padding_mode(torch::kReflect)),
                     nn::InstanceNorm2d(width), nn::ReLU(nn::ReLUOptions(true)),
                     nn::Conv2d(nn::Conv2dOptions(width, 2 * width, 3).stride(2).padding(1)),
                     nn::InstanceNorm2d(2 * width), nn::ReLU(nn::ReLUOptions(true)));
  for (int i = 0; i < blocks; ++i) net->push_back(Residual(2 * width));
  net->push_back(
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2 * width, width, 3).stride(2).padding(1).output_padding(1)));
  net->push_back(nn::InstanceNorm2d(width));
  net->push_back(nn::ReLU(nn::ReLUOptions(true)));
  net->push_back(nn::Conv2d(nn::Conv2dOptions(width, 3, 7).padding(3)));
  net->push_back(nn::Tanh());
  return net;
}

nn::Sequential make_judge(int64_t width) {
  nn::LeakyReLUOptions leak = nn::LeakyReLUOptions().negative_slope(0.2).inplace(true);
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, width, 4).stride(2).padding(1)), nn::LeakyReLU(leak),
                        nn::Conv2d(nn::Conv2dOptions(width, 2 * width, 4).stride(2).padding(1)),
                        nn::InstanceNorm2d(2 * width), nn::LeakyReLU(leak),
                        nn::Conv2d(nn::Conv2dOptions(2 * width, 1, 4).padding(1)));
}

std::vector<torch::Tensor> parameters_of(const nn::Sequential& a, const nn::Sequential& b) {
  auto all = a->parameters();
  for (auto& parameter : b->parameters()) all.push_back(parameter);
  return all;
}

torch::Tensor looks(const torch::Tensor& scores, double real) { return (scores - real).pow(2).mean(); }

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(7);
  const int64_t side = options.small ? 20 : 64, width = options.small ? 3 : 16;
  const int blocks = options.small ? 1 : 3;

  auto to_zebra = make_generator(width, blocks), to_horse = make_generator(width, blocks);
  auto zebra_judge = make_judge(width), horse_judge = make_judge(width);
  auto adam = torch::optim::AdamOptions(2e-4).betas({0.5, 0.999});
  torch::optim::Adam generators(parameters_of(to_zebra, to_horse), adam);
  torch::optim::Adam judges(parameters_of(zebra_judge, horse_judge), adam);

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto horse = torch::rand({1, 3, side, side}) * 2 - 1, zebra = torch::rand({1, 3, side, side}) * 2 - 1;
    auto step = session.step();  // Retrace

    generators.zero_grad();
    auto fake_zebra = to_zebra->forward(horse), fake_horse = to_horse->forward(zebra);
    auto adversarial = looks(zebra_judge->forward(fake_zebra), 1) + looks(horse_judge->forward(fake_horse), 1);
    auto cycle = F::l1_loss(to_horse->forward(fake_zebra), horse) + F::l1_loss(to_zebra->forward(fake_horse), zebra);
    auto identity = F::l1_loss(to_zebra->forward(zebra), zebra) + F::l1_loss(to_horse->forward(horse), horse);
    auto generator_loss = adversarial + 10 * cycle + 5 * identity;
    generator_loss.backward();
    generators.step();

    judges.zero_grad();
    auto zebra_loss = looks(zebra_judge->forward(zebra), 1) + looks(zebra_judge->forward(fake_zebra.detach()), 0);
    zebra_loss.backward();
    auto horse_loss = looks(horse_judge->forward(horse), 1) + looks(horse_judge->forward(fake_horse.detach()), 0);
    horse_loss.backward();
    judges.step();
    std::printf("step %2d: generators %.9g, judges %.9g\n", i, generator_loss.item<double>(),
                (zebra_loss + horse_loss).item<double>());
  }
}
