// An MLP-Mixer whose batch does not fit: gradients of sixteen micro-batches add up before each update.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Sequential make_mlp(int64_t width, int64_t hidden) {
  return nn::Sequential(nn::Linear(width, hidden), nn::GELU(), nn::Dropout(0.1), nn::Linear(hidden, width));
}

// Mixes what patches say to each other, then what channels do.
struct MixerImpl : nn::Module {
  MixerImpl(int64_t patches, int64_t channels)
      : norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({channels})))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({channels})))),
        patch_mlp(register_module("patch_mlp", make_mlp(patches, 2 * patches))),
        channel_mlp(register_module("channel_mlp", make_mlp(channels, 4 * channels))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = x + patch_mlp->forward(norm1(x).transpose(1, 2)).transpose(1, 2);
    return x + channel_mlp->forward(norm2(x));
  }

  nn::LayerNorm norm1, norm2;
  nn::Sequential patch_mlp, channel_mlp;
};
TORCH_MODULE(Mixer);

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(9);
  constexpr int kMicroBatches = 16;
  const int64_t batch = options.small ? 8 : 4, patches = options.small ? 8 : 64, channels = options.small ? 8 : 48;
  const int64_t pixels = options.small ? 12 : 48, classes = 10;

  nn::Sequential net(nn::Linear(pixels, channels));
  for (int i = 0; i < (options.small ? 1 : 4); ++i) net->push_back(Mixer(patches, channels));
  net->push_back(nn::LayerNorm(nn::LayerNormOptions({channels})));
  nn::Linear head(channels, classes);
  auto parameters = net->parameters();
  for (auto& parameter : head->parameters()) parameters.push_back(parameter);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-3));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto step = session.step();  // Retrace
    double total = 0;
    for (int k = 0; k < kMicroBatches; ++k) {
      auto images = torch::randn({batch, patches, pixels});
      auto labels = torch::randint(classes, {batch}, torch::kLong);
      auto loss = F::cross_entropy(head(net->forward(images).mean(1)), labels) / kMicroBatches;
      loss.backward();
      total += loss.item<double>();
    }
    optimizer.step();
    optimizer.zero_grad();
    std::printf("step %2d: loss of %d micro-batches %.9g\n", i, kMicroBatches, total);
  }
}
