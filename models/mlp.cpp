// Three linear layers, 10-50-50-1: small weights and a long batch, so that nearly all memory is activations.
#include "build.h"

namespace models {

Model make_mlp(Size size, const Extents& asked) {
  const int64_t rows = either(asked.batch, size == Size::bench ? 640 * 1024 : 64), width = either(asked.width, 50);
  Model model;
  append(model, "linear1", torch::nn::Linear(10, width));
  append(model, "relu1", torch::nn::ReLU());
  append(model, "linear2", torch::nn::Linear(width, width));
  append(model, "relu2", torch::nn::ReLU());
  append(model, "linear3", torch::nn::Linear(width, 1));
  const at::Tensor batch = torch::randn({rows, 10});
  const at::Tensor target = torch::randn({rows, 1});
  model.input = [batch] { return batch; };
  model.criterion = [target](const at::Tensor& y) { return torch::mse_loss(y, target); };
  return model;
}

}  // namespace models
