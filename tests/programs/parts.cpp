#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;

nn::Sequential mlp(const std::vector<int64_t>& widths) {
  nn::Sequential layers;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) layers->push_back(nn::ReLU());
    layers->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  return layers;
}

ConvNormReluImpl::ConvNormReluImpl(int64_t channels_in, int64_t channels_out, int64_t stride)
    : conv_(nn::Conv2dOptions(channels_in, channels_out, 3).padding(1).stride(stride).bias(false)),
      norm_(channels_out) {
  register_module("conv", conv_);
  register_module("norm", norm_);
}

Tensor ConvNormReluImpl::forward(const Tensor& x) { return norm_(conv_(x)).relu_(); }

std::shared_ptr<torch::optim::Adam> adam(const std::vector<Tensor>& parameters) {
  return std::make_shared<torch::optim::Adam>(parameters, torch::optim::AdamOptions(1e-3));
}

Program train_with_adam(const std::vector<Tensor>& parameters, std::function<Tensor()> loss) {
  const auto optimizer = adam(parameters);
  return {parameters, [optimizer, loss = std::move(loss)] {
            optimizer->zero_grad();
            const Tensor value = loss();
            value.backward();
            optimizer->step();
            return value.detach();
          }};
}

}  // namespace retrace::test::programs
