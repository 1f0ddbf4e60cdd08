// DCGAN, after the example of PyTorch's C++ frontend: a generator against a discriminator, three backwards a step.
#include <torch/torch.h>

#include <cstdio>

#include "options.h"

namespace nn = torch::nn;

struct GeneratorImpl : nn::Module {
  GeneratorImpl(int64_t noise, int64_t width)
      : conv1(nn::ConvTranspose2dOptions(noise, 4 * width, 4).bias(false)),
        conv2(nn::ConvTranspose2dOptions(4 * width, 2 * width, 3).stride(2).padding(1).bias(false)),
        conv3(nn::ConvTranspose2dOptions(2 * width, width, 4).stride(2).padding(1).bias(false)),
        conv4(nn::ConvTranspose2dOptions(width, 1, 4).stride(2).padding(1).bias(false)),
        norm1(4 * width),
        norm2(2 * width),
        norm3(width) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("conv4", conv4);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("norm3", norm3);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    x = torch::relu(norm3(conv3(x)));
    return torch::tanh(conv4(x));
  }

  nn::ConvTranspose2d conv1, conv2, conv3, conv4;
  nn::BatchNorm2d norm1, norm2, norm3;
};
TORCH_MODULE(Generator);

nn::Sequential make_discriminator(int64_t width) {
  auto leaky = [] { return nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)); };
  auto conv = [](int64_t in, int64_t out) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  return nn::Sequential(conv(1, width), leaky(), conv(width, 2 * width), nn::BatchNorm2d(2 * width), leaky(),
                        conv(2 * width, 4 * width), nn::BatchNorm2d(4 * width), leaky(),
                        nn::Conv2d(nn::Conv2dOptions(4 * width, 1, 3).bias(false)), nn::Sigmoid());
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(6);
  const int64_t batch = options.small ? 16 : 128, noise_size = options.small ? 8 : 64, width = options.small ? 8 : 28;

  Generator generator(noise_size, width);
  auto discriminator = make_discriminator(width);
  torch::optim::Adam generator_optimizer(generator->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.5}));
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(),
                                             torch::optim::AdamOptions(5e-4).betas({0.5, 0.5}));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto digits = torch::rand({batch, 1, 28, 28}) * 2 - 1;
    auto step = session.step();  // Retrace

    // Real images, then fake ones.
    discriminator->zero_grad();
    auto real_labels = torch::empty({batch, 1, 1, 1}).uniform_(0.8, 1.0);
    auto real_loss = torch::binary_cross_entropy(discriminator->forward(digits), real_labels);
    real_loss.backward();
    auto fake = generator(torch::randn({batch, noise_size, 1, 1}));
    auto fake_labels = torch::zeros({batch, 1, 1, 1});
    auto fake_loss = torch::binary_cross_entropy(discriminator->forward(fake.detach()), fake_labels);
    fake_loss.backward();
    discriminator_optimizer.step();

    // The generator learns to be taken for real.
    generator->zero_grad();
    fake_labels.fill_(1);
    auto generator_loss = torch::binary_cross_entropy(discriminator->forward(fake), fake_labels);
    generator_loss.backward();
    generator_optimizer.step();
    std::printf("step %2d: discriminator %.9g, generator %.9g\n", i, (real_loss + fake_loss).item<double>(),
                generator_loss.item<double>());
  }
}
