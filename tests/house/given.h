// What the examples of README.md find around them: a small model, a batch and an optimizer.
#pragma once

#include <iostream>
#include <memory>
#include <tuple>
#include <vector>

#include <torch/torch.h>

#include <retrace/retrace.h>

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(torch::Tensor x) { return x + torch::gelu(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Block);

struct Given {
  Block block{8};
  torch::nn::Sequential net{Block(8), Block(8), Block(8)};
  torch::nn::Sequential model = net;
  torch::optim::SGD optimizer{net->parameters(), 0.01};
  torch::nn::MSELoss criterion;
  torch::Tensor x = torch::randn({4, 8}, torch::requires_grad());
  torch::Tensor target = torch::randn({4, 8});
  std::shared_ptr<std::vector<torch::data::Example<>>> loader =
      std::make_shared<std::vector<torch::data::Example<>>>(3, torch::data::Example<>(x.detach(), target));
};
