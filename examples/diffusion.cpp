// A diffusion model. Every few steps it draws a sample, to look at: thousands of operators without gradients.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// A residual block that knows how noisy its input is.
struct ResBlockImpl : nn::Module {
  ResBlockImpl(int64_t channels, int64_t time_width)
      : norm1(register_module("norm1", nn::GroupNorm(4, channels))),
        norm2(register_module("norm2", nn::GroupNorm(4, channels))),
        conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(channels, channels, 3).padding(1)))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(channels, channels, 3).padding(1)))),
        time_projection(register_module("time_projection", nn::Linear(time_width, 2 * channels))) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& time) {
    auto modulation = time_projection(time).unsqueeze(2).unsqueeze(3).chunk(2, 1);
    auto h = conv1(torch::silu(norm1(x)));
    h = norm2(h) * (1 + modulation[0]) + modulation[1];
    return x + conv2(torch::silu(h));
  }

  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2;
  nn::Linear time_projection;
};
TORCH_MODULE(ResBlock);

struct DenoiserImpl : nn::Module {
  DenoiserImpl(int64_t channels, int blocks)
      : time_mlp(register_module("time_mlp", nn::Sequential(nn::Linear(channels, 4 * channels), nn::SiLU(),
                                                            nn::Linear(4 * channels, 4 * channels), nn::SiLU()))),
        enter(register_module("enter", nn::Conv2d(nn::Conv2dOptions(3, channels, 3).padding(1)))),
        leave(register_module("leave", nn::Conv2d(nn::Conv2dOptions(channels, 3, 3).padding(1)))) {
    for (int i = 0; i < blocks; ++i) body->push_back(ResBlock(channels, 4 * channels));
    register_module("body", body);
  }

  torch::Tensor forward(const torch::Tensor& noisy, const torch::Tensor& t) {
    const int64_t half = enter->options.out_channels() / 2;
    auto rates = torch::exp(torch::arange(half) * (-std::log(10000.0) / half));
    auto angles = t.to(torch::kFloat).unsqueeze(1) * rates;
    auto time = time_mlp->forward(torch::cat({angles.sin(), angles.cos()}, 1));
    auto h = enter(noisy);
    for (auto& block : *body) h = block->as<ResBlock>()->forward(h, time);
    return leave(torch::silu(h));
  }

  nn::Sequential time_mlp;
  nn::Conv2d enter, leave;
  nn::ModuleList body;
};
TORCH_MODULE(Denoiser);

struct Schedule {
  explicit Schedule(int64_t times)
      : beta(torch::linspace(1e-4, 0.02, times)), alpha(1 - beta), kept(torch::cumprod(alpha, 0)) {}

  torch::Tensor beta, alpha, kept;
};

// From pure noise to an image, one small step at a time.
torch::Tensor sample(Denoiser& model, const Schedule& schedule, int64_t side) {
  torch::NoGradGuard no_grad;
  auto x = torch::randn({1, 3, side, side});
  for (int64_t t = schedule.beta.size(0) - 1; t >= 0; --t) {
    auto noise = model(x, torch::full({1}, t, torch::kLong));
    x = (x - schedule.beta[t] / (1 - schedule.kept[t]).sqrt() * noise) / schedule.alpha[t].sqrt();
    if (t > 0) x += schedule.beta[t].sqrt() * torch::randn_like(x);
  }
  return x;
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(10);
  const int64_t batch = options.small ? 12 : 24, side = options.small ? 8 : 24, channels = options.small ? 8 : 24;
  const int64_t times = options.small ? 20 : 250, steps_per_epoch = options.small ? 2 : 5;

  Denoiser model(channels, options.small ? 2 : 5);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  const Schedule schedule(times);

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto images = torch::rand({batch, 3, side, side}) * 2 - 1;
    auto step = session.step();  // Retrace
    auto t = torch::randint(times, {batch}, torch::kLong);
    auto kept = schedule.kept.index_select(0, t).view({-1, 1, 1, 1});
    auto noise = torch::randn_like(images);
    auto loss = F::mse_loss(model(kept.sqrt() * images + (1 - kept).sqrt() * noise, t), noise);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss %.9g\n", i, loss.item<double>());
    if (i % (2 * steps_per_epoch) == 0)
      std::printf("a sample after %d epochs: mean %.9g\n", static_cast<int>(i / steps_per_epoch),
                  sample(model, schedule, side).mean().item<double>());
  }
}
