// What several of the programs are made of.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "programs.h"

namespace retrace::test::programs {

// Linear layers from each width to the next, with a ReLU between them.
torch::nn::Sequential mlp(const std::vector<int64_t>& widths);

// A 3×3 convolution, batch norm, and a ReLU in place.
class ConvNormReluImpl : public torch::nn::Module {
 public:
  ConvNormReluImpl(int64_t channels_in, int64_t channels_out, int64_t stride = 1);
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};
TORCH_MODULE(ConvNormRelu);

// The parameters of several modules.
template <class... Modules>
std::vector<at::Tensor> parameters_of(const Modules&... modules) {
  std::vector<at::Tensor> all;
  const auto append = [&](const std::vector<at::Tensor>& some) { all.insert(all.end(), some.begin(), some.end()); };
  (append(modules->parameters()), ...);
  return all;
}

std::shared_ptr<torch::optim::Adam> adam(const std::vector<at::Tensor>& parameters);

// The usual step: clear, `loss`, backward, update by Adam.
Program train_with_adam(const std::vector<at::Tensor>& parameters, std::function<at::Tensor()> loss);

}  // namespace retrace::test::programs
