// A U-Net finds ellipses in noise: skip connections, bilinear upsampling, a Dice loss.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Sequential double_conv(int64_t in, int64_t out) {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)), nn::BatchNorm2d(out),
                        nn::ReLU(nn::ReLUOptions(true)),
                        nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)), nn::BatchNorm2d(out),
                        nn::ReLU(nn::ReLUOptions(true)));
}

struct UNetImpl : nn::Module {
  UNetImpl(int64_t width, int depth) {
    for (int i = 0; i <= depth; ++i) down->push_back(double_conv(i == 0 ? 1 : width << (i - 1), width << i));
    for (int i = depth; i > 0; --i) up->push_back(double_conv((width << i) + (width << (i - 1)), width << (i - 1)));
    register_module("down", down);
    register_module("up", up);
    head = register_module("head", nn::Conv2d(nn::Conv2dOptions(width, 1, 1)));
  }

  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> skips;
    for (auto& stage : *down) {
      if (!skips.empty()) x = F::max_pool2d(x, F::MaxPool2dFuncOptions(2));
      x = stage->as<nn::Sequential>()->forward(x);
      skips.push_back(x);
    }
    skips.pop_back();
    for (auto& stage : *up) {
      x = F::interpolate(x, F::InterpolateFuncOptions()
                                .scale_factor(std::vector<double>{2, 2})
                                .mode(torch::kBilinear)
                                .align_corners(true));
      x = stage->as<nn::Sequential>()->forward(torch::cat({skips.back(), x}, 1));
      skips.pop_back();
    }
    return head(x);
  }

  nn::ModuleList down, up;
  nn::Conv2d head{nullptr};
};
TORCH_MODULE(UNet);

// Filled ellipses, one per image, and the same under noise.
std::pair<torch::Tensor, torch::Tensor> make_batch(int64_t batch, int64_t side) {
  auto axis = torch::linspace(-1, 1, side);
  auto center = torch::empty({2, batch, 1, 1}).uniform_(-0.5, 0.5),
       radius = torch::empty({2, batch, 1, 1}).uniform_(0.2, 0.5);
  auto x = (axis.view({1, 1, side}) - center[0]) / radius[0], y = (axis.view({1, side, 1}) - center[1]) / radius[1];
  auto mask = (x * x + y * y < 1).to(torch::kFloat).unsqueeze(1);
  return {mask + torch::randn_like(mask), mask};
}

torch::Tensor dice_loss(const torch::Tensor& probability, const torch::Tensor& mask) {
  auto overlap = (probability * mask).sum({1, 2, 3});
  return 1 - ((2 * overlap + 1) / (probability.sum({1, 2, 3}) + mask.sum({1, 2, 3}) + 1)).mean();
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(13);
  const int64_t batch = 6, side = options.small ? 16 : 64;

  UNet net(options.small ? 4 : 12, options.small ? 2 : 3);
  torch::optim::RMSprop optimizer(net->parameters(), torch::optim::RMSpropOptions(1e-4).momentum(0.9));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto [images, masks] = make_batch(batch, side);
    auto step = session.step();  // Retrace
    auto scores = net(images);
    auto loss = F::binary_cross_entropy_with_logits(scores, masks) + dice_loss(torch::sigmoid(scores), masks);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss %.9g\n", i, loss.item<double>());
  }
}
