// SimCLR: two random views of each image must have similar codes. A blur of random size makes the operators in front of
// the net other ones in every step; the net itself never changes.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : body(register_module(
            "body",
            nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
                           nn::BatchNorm2d(out), nn::ReLU(),
                           nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)), nn::BatchNorm2d(out)))),
        skip(register_module("skip", nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)))) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(body->forward(x) + skip(x)); }

  nn::Sequential body;
  nn::Conv2d skip;
};
TORCH_MODULE(BasicBlock);

int64_t random_up_to(int64_t most) { return torch::randint(1, most + 1, {1}).item<int64_t>(); }

torch::Tensor gaussian_blur(const torch::Tensor& images, int64_t radius) {
  auto line = torch::exp(-0.5 * (torch::arange(-radius, radius + 1).to(torch::kFloat) * 2 / radius).pow(2));
  auto kernel = (line / line.sum()).view({1, 1, 1, -1}).expand({3, 1, 1, 2 * radius + 1});
  auto rows = F::conv2d(F::pad(images, F::PadFuncOptions({radius, radius, 0, 0}).mode(torch::kReflect)), kernel,
                        F::Conv2dFuncOptions().groups(3));
  return F::conv2d(F::pad(rows, F::PadFuncOptions({0, 0, radius, radius}).mode(torch::kReflect)),
                   kernel.transpose(2, 3), F::Conv2dFuncOptions().groups(3));
}

// A random crop, perhaps mirrored, with random colors, perhaps blurred.
torch::Tensor random_view(const torch::Tensor& images) {
  const int64_t side = images.size(2), crop = side - random_up_to(side / 4);
  auto view = images.slice(2, side - crop).slice(3, side - crop);
  view = F::interpolate(
      view,
      F::InterpolateFuncOptions().size(std::vector<int64_t>{side, side}).mode(torch::kBilinear).align_corners(false));
  if (random_up_to(2) == 1) view = view.flip(3);
  view = view * torch::empty({images.size(0), 3, 1, 1}).uniform_(0.6, 1.4);
  if (random_up_to(2) == 1) view = gaussian_blur(view, random_up_to(side / 8));
  return view.clamp(0, 1);
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(4);
  const int64_t batch = options.small ? 8 : 32, side = options.small ? 16 : 32, width = options.small ? 4 : 16;

  nn::Sequential net(BasicBlock(3, width, 1), BasicBlock(width, width, 1), BasicBlock(width, 2 * width, 2),
                     BasicBlock(2 * width, 2 * width, 1), BasicBlock(2 * width, 4 * width, 2), nn::AdaptiveAvgPool2d(1),
                     nn::Flatten(), nn::Linear(4 * width, 4 * width), nn::ReLU(), nn::Linear(4 * width, 2 * width));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));
  auto images = torch::rand({4 * batch, 3, side, side});

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto step = session.step();  // Retrace
    auto chosen = images.index_select(0, torch::randint(images.size(0), {batch}, torch::kLong));
    auto codes = net->forward(torch::cat({random_view(chosen), random_view(chosen)}));
    codes = F::normalize(codes, F::NormalizeFuncOptions().dim(1));
    auto similarity = codes.mm(codes.t()) / 0.5;
    similarity.fill_diagonal_(-1e9);
    auto partner = torch::arange(2 * batch).roll(batch);
    auto loss = F::cross_entropy(similarity, partner);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %2d: contrastive loss %.9g\n", i, loss.item<double>());
  }
}
