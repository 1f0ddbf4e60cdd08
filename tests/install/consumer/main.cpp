// Succeeds if a checkpointed layer and a checkpointed step have the plain program's gradients, if operators were recorded
// and replayed for them, and if the step needed less memory than the plain one.
#include <torch/torch.h>

#include <cstdio>

#include <retrace/retrace.h>

namespace {

torch::nn::Linear layer = nullptr;

torch::Tensor gradient_of(const torch::Tensor& y) {
  layer->zero_grad();
  y.sum().backward();
  return layer->weight.grad().clone();
}

torch::Tensor block(torch::Tensor x) { return torch::tanh(layer(torch::sigmoid(layer(x)))); }

torch::Tensor deep(torch::Tensor x) {
  for (int i = 0; i < 10; ++i) x = block(x);
  return x;
}

int failures = 0;
void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  ++failures;
}

}  // namespace

int main() {
  layer = torch::nn::Linear(8, 8);
  const auto x = torch::randn({1000, 8});

  const auto plain = gradient_of(block(x));
  check(torch::equal(plain, gradient_of(retrace::checkpoint(block, x))), "a checkpoint has the plain gradients");
  check(retrace::stats().ops_recorded > 0, "a checkpoint records operators");
  check(retrace::stats().ops_replayed > 0, "a checkpoint replays operators");

  retrace::memory::reset_peak();
  const auto plain_deep = gradient_of(deep(x));
  const auto plain_peak = retrace::memory::peak_bytes();
  retrace::Session session(retrace::recompute_all());
  retrace::memory::reset_peak();
  {
    auto step = session.step();
    check(torch::equal(plain_deep, gradient_of(deep(x))), "a step has the plain gradients");
  }
  check(session.stats().ops_recorded > 0, "a step records operators");
  check(session.stats().ops_replayed > 0, "a step replays operators");
  check(retrace::memory::peak_bytes() < plain_peak / 2, "a step needs half the plain memory at most");
  return failures;
}
