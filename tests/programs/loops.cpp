// Ordinary models in less ordinary training loops: two losses, accumulated micro-batches, MAML, L-BFGS.
#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

// A network whose weights are given to it: three layers, each of a matrix and a bias.
Tensor functional_mlp(const Tensor& input, const std::vector<Tensor>& weights) {
  const Tensor first = torch::relu(input.mm(weights[0]) + weights[1]);
  const Tensor second = torch::relu(first.mm(weights[2]) + weights[3]);
  return second.mm(weights[4]) + weights[5];
}

// The weights after one update by gradient descent, as a function of those before it.
std::vector<Tensor> updated(const std::vector<Tensor>& weights, const Tensor& loss) {
  const auto gradients = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/true, /*create_graph=*/true);
  std::vector<Tensor> next;
  for (size_t i = 0; i < weights.size(); ++i) next.push_back(weights[i] - 0.01 * gradients[i]);
  return next;
}

}  // namespace

Program two_losses() {
  constexpr int64_t kBatch = 512, kWidth = 64;
  nn::Sequential trunk = mlp({kWidth, kWidth, kWidth, kWidth});
  nn::Sequential one = mlp({kWidth, kWidth, 10}), other = mlp({kWidth, kWidth, 10});
  const auto parameters = parameters_of(trunk, one, other);
  const auto optimizer = std::make_shared<torch::optim::SGD>(parameters, 0.01);
  return {parameters, [=]() mutable {
            optimizer->zero_grad();
            const Tensor shared = torch::relu(trunk->forward(torch::randn({kBatch, kWidth})));
            const Tensor one_loss = one->forward(shared).pow(2).mean();
            const Tensor other_loss = other->forward(shared).abs().mean();
            one_loss.backward({}, /*retain_graph=*/true);
            other_loss.backward();
            optimizer->step();
            return one_loss.detach() + other_loss.detach();
          }};
}

Program micro_batches() {
  constexpr int64_t kBatches = 4, kBatch = 4, kClasses = 10;
  nn::Sequential net(ConvNormRelu(3, 16), ConvNormRelu(16, 32, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(32, kClasses));
  const auto optimizer =
      std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  return {net->parameters(), [=]() mutable {
            optimizer->zero_grad();
            Tensor sum = torch::zeros({});
            for (int64_t i = 0; i < kBatches; ++i) {
              const Tensor images = torch::randn({kBatch, 3, 32, 32}), labels = torch::randint(0, kClasses, {kBatch});
              const Tensor loss = F::cross_entropy(net->forward(images), labels) / kBatches;
              loss.backward();
              sum += loss.detach();
            }
            optimizer->step();
            return sum;
          }};
}

Program adversarial() {
  constexpr int64_t kBatch = 8, kClasses = 10;
  nn::Sequential net(ConvNormRelu(3, 16), nn::MaxPool2d(2), ConvNormRelu(16, 16), nn::AdaptiveAvgPool2d(1),
                     nn::Flatten(), nn::Linear(16, kClasses));
  const auto optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), 0.01);
  return {net->parameters(), [=]() mutable {
            const Tensor images = torch::rand({kBatch, 3, 32, 32}), labels = torch::randint(0, kClasses, {kBatch});
            Tensor worse = (images + torch::empty_like(images).uniform_(-0.03, 0.03)).clamp(0, 1).detach();
            for (int i = 0; i < 3; ++i) {
              worse.requires_grad_();
              const Tensor loss = F::cross_entropy(net->forward(worse), labels);
              const Tensor gradient = torch::autograd::grad({loss}, {worse})[0];
              worse = worse.detach() + 0.01 * gradient.sign();
              worse = torch::min(torch::max(worse, images - 0.03), images + 0.03).clamp(0, 1).detach();
            }
            optimizer->zero_grad();
            const Tensor loss = F::cross_entropy(net->forward(worse), labels);
            loss.backward();
            optimizer->step();
            return loss.detach();
          }};
}

Program newton_steps() {
  constexpr int64_t kBatch = 64, kWidth = 64;
  nn::Sequential net(nn::Linear(kWidth, 2 * kWidth), nn::Tanh(), nn::Linear(2 * kWidth, 2 * kWidth), nn::Tanh(),
                     nn::Linear(2 * kWidth, 1));
  const auto weights = net->parameters();
  const auto in_one = [](const std::vector<Tensor>& parts) {
    std::vector<Tensor> flat;
    for (const Tensor& part : parts) flat.push_back(part.reshape({-1}));
    return torch::cat(flat);
  };
  return {weights, [=]() mutable {
            for (Tensor weight : weights) weight.mutable_grad() = Tensor();
            const Tensor loss = net->forward(torch::randn({kBatch, kWidth})).pow(2).mean();
            const Tensor slope = in_one(torch::autograd::grad({loss}, weights, {}, true, true));
            Tensor direction = torch::ones_like(slope);
            for (int i = 0; i < 6; ++i) {
              const Tensor product = in_one(torch::autograd::grad({slope.dot(direction)}, weights, {}, true));
              direction = product * 0.1 + direction;
            }
            (loss + 0.01 * slope.dot(direction.detach())).backward();
            return loss.detach();
          }};
}

Program growing() {
  constexpr int64_t kWords = 1000, kMore = 250, kWidth = 64, kBatch = 128;
  const auto words = std::make_shared<Tensor>((torch::randn({kWords, kWidth}) * 0.1).requires_grad_());
  const Tensor weight = (torch::randn({kWidth, kWidth}) * 0.1).requires_grad_();
  return {{weight}, [=]() mutable {
            {
              const torch::NoGradGuard no_grad;
              const Tensor larger = torch::randn({words->size(0) + kMore, kWidth});
              larger.slice(0, 0, words->size(0)).copy_(*words);
              *words = larger.set_requires_grad(true);
            }
            weight.mutable_grad() = Tensor();
            Tensor hidden = torch::embedding(*words, torch::randint(words->size(0), {kBatch}, torch::kLong));
            for (int i = 0; i < 4; ++i) hidden = torch::tanh(hidden.mm(weight));
            const Tensor loss = hidden.mm(words->t()).logsumexp(1).mean();
            loss.backward();
            const torch::NoGradGuard no_grad;
            for (Tensor parameter : {*words, weight}) parameter.sub_(parameter.grad(), 0.1);
            words->mutable_grad() = Tensor();
            return loss.detach();
          }};
}

Program resized() {
  constexpr int64_t kBatch = 4, kClasses = 10;
  nn::Sequential net(ConvNormRelu(3, 16), ConvNormRelu(16, 16), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(16, kClasses));
  const auto optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), 0.01);
  const auto loaded = std::make_shared<Tensor>(torch::rand({kBatch, 3, 128, 128}));
  return {net->parameters(), [=]() mutable {
            Tensor images = std::exchange(*loaded, Tensor());
            const auto small = F::InterpolateFuncOptions().size(std::vector<int64_t>{32, 32}).mode(torch::kBilinear);
            images = F::interpolate(images, F::InterpolateFuncOptions(small).align_corners(false));
            optimizer->zero_grad();
            const Tensor loss = F::cross_entropy(net->forward(images), torch::randint(0, kClasses, {kBatch}));
            loss.backward();
            optimizer->step();
            images = Tensor();
            *loaded = torch::rand({kBatch, 3, 128, 128});
            return loss.detach();
          }};
}

Program maml() {
  constexpr int kTasks = 3, kInnerSteps = 3;
  constexpr int64_t kBatch = 256, kWidth = 32;
  std::vector<Tensor> weights;
  const std::vector<int64_t> widths{1, kWidth, kWidth, 1};
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    weights.push_back((torch::randn({widths[i], widths[i + 1]}) * 0.3).requires_grad_());
    weights.push_back(torch::zeros({widths[i + 1]}).requires_grad_());
  }
  return train_with_adam(weights, [weights] {
    Tensor sum = torch::zeros({});
    for (int task = 1; task <= kTasks; ++task) {
      const auto loss_with = [&](const std::vector<Tensor>& given, const Tensor& x) {
        return F::mse_loss(functional_mlp(x, given), torch::sin(x * task));
      };
      const Tensor support = torch::randn({kBatch, 1}), query = torch::randn({kBatch, 1});
      std::vector<Tensor> adapted = weights;
      for (int i = 0; i < kInnerSteps; ++i) adapted = updated(adapted, loss_with(adapted, support));
      sum = sum + loss_with(adapted, query);
    }
    return sum / kTasks;
  });
}

Program lbfgs() {
  constexpr int64_t kRows = 512, kWidth = 32;
  nn::Sequential net = mlp({kWidth, 64, 64, 1});
  const Tensor x = torch::randn({kRows, kWidth}), y = x.sum(1, /*keepdim=*/true).tanh();
  const auto optimizer = std::make_shared<torch::optim::LBFGS>(
      net->parameters(), torch::optim::LBFGSOptions(0.1).max_iter(4).history_size(4));
  const auto loss = [=]() mutable {
    optimizer->zero_grad();
    Tensor value = F::mse_loss(net->forward(x), y);
    for (const Tensor& p : net->parameters()) value = value + 1e-4 * p.pow(2).sum();  // weight decay
    value.backward();
    return value;
  };
  return {net->parameters(), [=]() mutable { return optimizer->step(loss).detach(); }};
}

}  // namespace retrace::test::programs
