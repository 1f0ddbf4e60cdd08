// Fine-tunes a TorchScript model: its stem stays as it is, its blocks are trained on, and a new head is put on it. A
// real program would torch::jit::load() the model; this one defines it.
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "options.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr const char* kBlock = R"(
def forward(self, x: Tensor) -> Tensor:
    y = torch.layer_norm(x, [x.size(-1)], self.scale, self.shift)
    y = torch.gelu(torch.matmul(y, self.widen))
    if self.training:
        y = torch.dropout(y, 0.1, True)
    return x + torch.matmul(y, self.narrow)
)";

constexpr const char* kNet = R"(
def forward(self, x: Tensor) -> Tensor:
    x = torch.tanh(torch.matmul(x, self.stem))
    x = self.block0.forward(x)
    x = self.block1.forward(x)
    x = self.block2.forward(x)
    return x.mean(1)
)";

torch::jit::Module make_block(const std::string& name, int64_t width) {
  torch::jit::Module block(name);
  block.register_parameter("scale", torch::ones({width}), /*is_buffer=*/false);
  block.register_parameter("shift", torch::zeros({width}), /*is_buffer=*/false);
  block.register_parameter("widen", torch::randn({width, 4 * width}) * 0.1, /*is_buffer=*/false);
  block.register_parameter("narrow", torch::randn({4 * width, width}) * 0.1, /*is_buffer=*/false);
  block.register_attribute("training", torch::jit::BoolType::get(), true);
  block.define(kBlock);
  return block;
}

torch::jit::Module make_pretrained(int64_t features, int64_t width) {
  torch::jit::Module net("Pretrained");
  net.register_parameter("stem", torch::randn({features, width}) * 0.1, /*is_buffer=*/false);
  for (int i = 0; i < 3; ++i)
    net.register_module("block" + std::to_string(i), make_block("Block" + std::to_string(i), width));
  net.define(kNet);
  return net;
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(16);
  const int64_t batch = 32, length = options.small ? 6 : 64, features = 32, classes = 5;
  const int64_t width = options.small ? 16 : 96;

  auto body = make_pretrained(features, width);
  nn::Linear head(width, classes);
  std::vector<torch::Tensor> parameters = head->parameters();
  for (const auto& parameter : body.parameters()) {
    parameter.requires_grad_();
    parameters.push_back(parameter);
  }
  body.attr("stem").toTensor().requires_grad_(false);
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-4));

  examples::Session session(options);  // Retrace
  for (int i = 1; i <= options.steps; ++i) {
    auto x = torch::randn({batch, length, features});
    auto labels = torch::randint(classes, {batch}, torch::kLong);
    auto step = session.step();  // Retrace
    optimizer.zero_grad();
    auto loss = F::cross_entropy(head(body.forward({x}).toTensor()), labels);
    loss.backward();
    optimizer.step();
    std::printf("step %2d: loss %.9g\n", i, loss.item<double>());
  }
}
