// Programs that learn to generate: diffusion, a normalizing flow, WGAN with gradient penalty, DCGAN.
#include <cmath>

#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

nn::Conv2d same_size_conv(int64_t channels_in, int64_t channels_out) {
  return nn::Conv2d(nn::Conv2dOptions(channels_in, channels_out, 3).padding(1));
}

// A residual block that is told the time.
class TimedBlockImpl : public nn::Module {
 public:
  TimedBlockImpl(int64_t channels, int64_t time_width)
      : norm1_(8, channels),
        norm2_(8, channels),
        conv1_(same_size_conv(channels, channels)),
        conv2_(same_size_conv(channels, channels)),
        time_(time_width, channels) {
    register_module("norm1", norm1_);
    register_module("norm2", norm2_);
    register_module("conv1", conv1_);
    register_module("conv2", conv2_);
    register_module("time", time_);
  }
  Tensor forward(const Tensor& x, const Tensor& time) {
    const Tensor shift = time_(torch::silu(time)).unsqueeze(-1).unsqueeze(-1);
    const Tensor h = conv1_(torch::silu(norm1_(x))) + shift;
    return x + conv2_(torch::dropout(torch::silu(norm2_(h)), 0.1, /*train=*/true));
  }

 private:
  nn::GroupNorm norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  nn::Linear time_;
};
TORCH_MODULE(TimedBlock);

class DenoiserImpl : public nn::Module {
 public:
  static constexpr int64_t kChannels = 16, kTimeWidth = 32;

  DenoiserImpl() : first_(same_size_conv(1, kChannels)), last_(same_size_conv(kChannels, 1)) {
    register_module("first", first_);
    register_module("last", last_);
    for (int i = 0; i < 3; ++i)
      blocks_.push_back(register_module("block" + std::to_string(i), TimedBlock(kChannels, kTimeWidth)));
  }
  Tensor forward(const Tensor& images, const Tensor& times) {
    const Tensor time = embedded(times);
    Tensor h = first_(images);
    for (TimedBlock& block : blocks_) h = block(h, time);
    return last_(torch::silu(h + attention(h)));
  }

 private:
  static Tensor embedded(const Tensor& times) {
    const Tensor frequencies = torch::exp(torch::arange(kTimeWidth / 2) * -0.3);
    const Tensor angles = times.unsqueeze(1) * frequencies;
    return torch::cat({torch::sin(angles), torch::cos(angles)}, 1);
  }
  // Every pixel looks at every other.
  static Tensor attention(const Tensor& h) {
    const Tensor pixels = h.flatten(2).transpose(1, 2);
    const double scale = 1 / std::sqrt(static_cast<double>(kChannels));
    const Tensor weights = torch::softmax(pixels.bmm(pixels.transpose(1, 2)) * scale, -1);
    return weights.bmm(pixels).transpose(1, 2).view_as(h);
  }

  nn::Conv2d first_, last_;
  std::vector<TimedBlock> blocks_;
};
TORCH_MODULE(Denoiser);

nn::ConvTranspose2d upward_conv(int64_t channels_in, int64_t channels_out) {
  return nn::ConvTranspose2d(nn::ConvTranspose2dOptions(channels_in, channels_out, 4).stride(2).padding(1).bias(false));
}
nn::Conv2d downward_conv(int64_t channels_in, int64_t channels_out) {
  return nn::Conv2d(nn::Conv2dOptions(channels_in, channels_out, 4).stride(2).padding(1));
}
nn::ReLU relu_in_place() { return nn::ReLU(nn::ReLUOptions(true)); }
nn::LeakyReLU leaky_relu() { return nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)); }

// (|gradient at points between real and fake| - 1)², as a part of the loss.
Tensor gradient_penalty(nn::Sequential& critic, const Tensor& real, const Tensor& fake) {
  const Tensor share = torch::rand({real.size(0), 1});
  const Tensor between = (share * real + (1 - share) * fake).requires_grad_();
  const Tensor score = critic->forward(between);
  const Tensor gradient = torch::autograd::grad({score}, {between}, {torch::ones_like(score)}, /*retain_graph=*/true,
                                                /*create_graph=*/true)[0];
  return (gradient.norm(2, 1) - 1).pow(2).mean();
}

Tensor judged(nn::Sequential& discriminator, const Tensor& images, const Tensor& labels) {
  return F::binary_cross_entropy(discriminator->forward(images), labels);
}

}  // namespace

Program diffusion() {
  constexpr int64_t kBatch = 4, kSide = 16, kTimes = 1000;
  Denoiser net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor images = torch::randn({kBatch, 1, kSide, kSide}), times = torch::randint(0, kTimes, {kBatch});
    const Tensor kept = torch::cos(times.to(torch::kFloat) / kTimes * 1.5).pow(2).view({kBatch, 1, 1, 1});
    const Tensor noise = torch::randn_like(images);
    return F::mse_loss(net(kept.sqrt() * images + (1 - kept).sqrt() * noise, times), noise);
  });
}

Program flow() {
  constexpr int64_t kBatch = 512, kHalf = 8;
  std::vector<nn::Sequential> couplings;
  std::vector<Tensor> parameters;
  for (int i = 0; i < 6; ++i) {
    couplings.push_back(mlp({kHalf, 32, 32, 2 * kHalf}));
    const auto some = couplings.back()->parameters();
    parameters.insert(parameters.end(), some.begin(), some.end());
  }
  return train_with_adam(parameters, [couplings]() mutable {
    Tensor left = torch::randn({kBatch, kHalf}), right = torch::randn({kBatch, kHalf});
    Tensor log_determinant = torch::zeros({kBatch});
    for (nn::Sequential& coupling : couplings) {
      const auto scale_and_shift = coupling->forward(left).chunk(2, 1);
      const Tensor scale = torch::tanh(scale_and_shift[0]);
      right = right * torch::exp(scale) + scale_and_shift[1];
      log_determinant = log_determinant + scale.sum(1);
      std::swap(left, right);
    }
    const Tensor log_density = -0.5 * torch::cat({left, right}, 1).pow(2).sum(1);
    return -(log_density + log_determinant).mean();
  });
}

Program wgan_gp() {
  constexpr int64_t kBatch = 256, kNoise = 16, kWidth = 32;
  nn::Sequential generator = mlp({kNoise, 64, 64, kWidth}), critic = mlp({kWidth, 64, 64, 1});
  const auto generator_optimizer = adam(generator->parameters()), critic_optimizer = adam(critic->parameters());
  return {parameters_of(generator, critic), [=]() mutable {
            critic_optimizer->zero_grad();
            const Tensor real = torch::randn({kBatch, kWidth});
            const Tensor fake = generator->forward(torch::randn({kBatch, kNoise})).detach();
            const Tensor critic_loss =
                critic->forward(fake).mean() - critic->forward(real).mean() + 10 * gradient_penalty(critic, real, fake);
            critic_loss.backward();
            critic_optimizer->step();

            generator_optimizer->zero_grad();
            const Tensor generator_loss = -critic->forward(generator->forward(torch::randn({kBatch, kNoise}))).mean();
            generator_loss.backward();
            generator_optimizer->step();
            return critic_loss.detach() + generator_loss.detach();
          }};
}

Program dcgan() {
  constexpr int64_t kBatch = 32, kNoise = 16;
  nn::Sequential generator(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(kNoise, 32, 4).bias(false)),
                           nn::BatchNorm2d(32), relu_in_place(), upward_conv(32, 16), nn::BatchNorm2d(16),
                           relu_in_place(), upward_conv(16, 1), nn::Tanh());
  nn::Sequential discriminator(downward_conv(1, 16), leaky_relu(), downward_conv(16, 32), nn::BatchNorm2d(32),
                               leaky_relu(), nn::Conv2d(nn::Conv2dOptions(32, 1, 4)), nn::Sigmoid());
  const auto generator_optimizer = adam(generator->parameters());
  const auto discriminator_optimizer = adam(discriminator->parameters());
  return {parameters_of(generator, discriminator), [=]() mutable {
            discriminator_optimizer->zero_grad();
            const Tensor real = torch::randn({kBatch, 1, 16, 16});
            const Tensor nearly_one = torch::empty({kBatch, 1, 1, 1}).uniform_(0.8, 1.0);
            const Tensor zero = torch::zeros({kBatch, 1, 1, 1}), one = torch::ones({kBatch, 1, 1, 1});
            const Tensor real_loss = judged(discriminator, real, nearly_one);
            real_loss.backward();
            const Tensor fake = generator->forward(torch::randn({kBatch, kNoise, 1, 1}));
            const Tensor fake_loss = judged(discriminator, fake.detach(), zero);
            fake_loss.backward();
            discriminator_optimizer->step();

            generator_optimizer->zero_grad();
            const Tensor generator_loss = judged(discriminator, fake, one);
            generator_loss.backward();
            generator_optimizer->step();
            return (real_loss + fake_loss + generator_loss).detach();
          }};
}

}  // namespace retrace::test::programs
