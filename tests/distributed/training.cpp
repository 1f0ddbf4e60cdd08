// training data_parallel|tensor_parallel RANK FILE: one of two processes that train together, plainly and with Retrace.
// Fails unless every gradient of every step is the plain one's, bit for bit.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <retrace/session.h>

#include "group.h"

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using torch::autograd::AutogradContext;

constexpr int kSteps = 3, kLayers = 6, kWidth = 128, kRows = 2048;

c10::intrusive_ptr<c10d::ProcessGroup> group;

// Megatron's pair: the sum over processes in forward and nothing in backward, or the other way round.
struct ReduceInForward : torch::autograd::Function<ReduceInForward> {
  static Tensor forward(AutogradContext*, const Tensor& x) {
    auto y = x.clone();
    distributed::all_reduce(group, y);
    return y;
  }
  static Tensors backward(AutogradContext*, const Tensors& g) { return {g[0]}; }
};
struct ReduceInBackward : torch::autograd::Function<ReduceInBackward> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.clone(); }
  static Tensors backward(AutogradContext*, const Tensors& g) {
    auto y = g[0].clone();
    distributed::all_reduce(group, y);
    return {y};
  }
};

Tensor weight(int64_t rows, int64_t columns) { return (at::randn({rows, columns}) * 0.1).requires_grad_(true); }

// Each process has its own rows of the batch and all weights.
struct DataParallel {
  explicit DataParallel(int rank) {
    for (int i = 0; i < kLayers; ++i) weights.push_back(weight(kWidth, kWidth));
    input = at::randn({kRows, kWidth}) * (1 + rank);
  }
  Tensor loss() const {
    auto h = input;
    for (const auto& w : weights) h = (h + h.mm(w).tanh().mul(0.5)).tanh();
    return h.pow(2).mean();
  }
  void after_backward() const {
    for (const auto& w : weights) {
      distributed::all_reduce(group, w.mutable_grad());
      w.mutable_grad().div_(distributed::kProcesses);
    }
  }
  Tensors weights;
  Tensor input;
};

// Each process has all rows of the batch and half of the columns, then rows, of each pair of weights. What comes out of
// a collective cannot be rebuilt: most of the memory is in between.
struct TensorParallel {
  explicit TensorParallel(int rank) {
    at::manual_seed(rank + 1);
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(weight(kWidth, 2 * kWidth));
      weights.push_back(weight(2 * kWidth, kWidth));
    }
    input = at::linspace(-1, 1, kRows * kWidth).view({kRows, kWidth});
  }
  Tensor loss() const {
    auto h = input;
    for (size_t i = 0; i < weights.size(); i += 2) {
      const auto hidden = ReduceInBackward::apply(h).mm(weights[i]);
      h = (h + ReduceInForward::apply((hidden * hidden.sigmoid()).tanh().mm(weights[i + 1]))).tanh();
    }
    return h.pow(2).mean();
  }
  void after_backward() const {}
  Tensors weights;
  Tensor input;
};

// The gradients of all steps. With a session, each step is one of its own.
template <class Model>
Tensors train(int rank, retrace::Session* session) {
  at::manual_seed(3);
  const Model model(rank);
  Tensors gradients;
  for (int i = 0; i < kSteps; ++i) {
    {
      std::unique_ptr<retrace::Step> step(session ? new retrace::Step(session->step()) : nullptr);
      for (const auto& w : model.weights) w.mutable_grad() = Tensor();
      model.loss().backward();
      model.after_backward();
      const at::NoGradGuard no_grad;
      for (auto w : model.weights) w.sub_(w.grad(), 0.1);
    }
    for (const auto& w : model.weights) gradients.push_back(w.grad().clone());
  }
  return gradients;
}

template <class Model>
int compare(int rank) {
  const Tensors plain = train<Model>(rank, nullptr);
  int failures = 0;
  for (const std::string with : {"recompute_all", "60%", "80%"}) {
    retrace::Session session =
        with == "recompute_all" ? retrace::Session(retrace::recompute_all()) : retrace::Session(retrace::budget(with));
    const Tensors gradients = train<Model>(rank, &session);
    int different = 0;
    for (size_t i = 0; i < plain.size(); ++i) different += at::equal(gradients[i], plain[i]) ? 0 : 1;
    const auto replayed = session.stats().ops_replayed;
    std::printf("%s: %d of %zu gradients differ, %ld operators replayed in the last step\n", with.c_str(), different,
                plain.size(), static_cast<long>(replayed));
    failures += different > 0 || replayed == 0;
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // what is printed stays if something is thrown later
  const std::string how = argv[1];
  const int rank = std::stoi(argv[2]);
  group = distributed::make_group(rank, argv[3]);
  const int failures = how == "data_parallel" ? compare<DataParallel>(rank) : compare<TensorParallel>(rank);
  group.reset();  // its threads must not outlive what they use
  return failures;
}
