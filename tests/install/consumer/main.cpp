// Succeeds if a checkpointed layer has the plain layer's gradients and something was rebuilt for them.
#include <torch/torch.h>

#include <retrace/retrace.h>

int main() {
  torch::nn::Linear layer(8, 8);
  auto forward = [&](torch::Tensor x) { return torch::tanh(layer(torch::sigmoid(layer(x)))); };
  const auto x = torch::randn({4, 8});

  forward(x).sum().backward();
  const auto plain = layer->weight.grad().clone();
  layer->zero_grad();
  retrace::checkpoint(forward, x).sum().backward();

  const bool same = torch::equal(plain, layer->weight.grad());
  return same && retrace::stats().ops_replayed > 0 ? 0 : 1;
}
