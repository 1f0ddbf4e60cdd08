// Nets that stand for differential equations.
#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace nn = torch::nn;

namespace {

constexpr int kMoments = 8;

// How the state changes: a net whose weights are given to it.
Tensor change(const Tensor& state, const variable_list& weights) {
  return torch::tanh(state.mm(weights[0]) + weights[1]).mm(weights[2]) / kMoments;
}

// Keeps nothing of the way: backward goes back in time, and finds the gradients of each moment by a backward of its
// own.
struct Adjoint : torch::autograd::Function<Adjoint> {
  static Tensor forward(AutogradContext* context, Tensor state, const Tensor& first, const Tensor& bias,
                        const Tensor& second) {
    for (int t = 0; t < kMoments; ++t) state = state + change(state, {first, bias, second});
    context->save_for_backward({state, first, bias, second});
    return state;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const variable_list weights(saved.begin() + 1, saved.end());
    Tensor state = saved[0];
    variable_list sums{gradients[0]};
    for (const Tensor& weight : weights) sums.push_back(torch::zeros_like(weight));
    for (int t = 0; t < kMoments; ++t) {
      variable_list inputs{state.detach().requires_grad_()};
      for (const Tensor& weight : weights) inputs.push_back(weight.detach().requires_grad_());
      const torch::AutoGradMode with_gradients(true);
      const Tensor changed = change(inputs[0], {inputs.begin() + 1, inputs.end()});
      const variable_list found = torch::autograd::grad({changed}, inputs, {sums[0]});
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + found[i];
      state = state - changed.detach();
    }
    return sums;
  }
};

}  // namespace

Program burgers() {
  nn::Sequential solution(nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 1));
  return train_with_adam(solution->parameters(), [solution]() mutable {
    const auto derivative = [](const Tensor& of, const Tensor& by) {
      return torch::autograd::grad({of.sum()}, {by}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    };
    const Tensor places = torch::rand({256, 2}).requires_grad_();
    const Tensor u = solution->forward(places);
    const Tensor first = derivative(u, places);
    const Tensor u_x = first.select(1, 0), u_t = first.select(1, 1);
    const Tensor u_xx = derivative(u_x, places).select(1, 0);
    const Tensor residual = u_t + u.squeeze(1) * u_x - 0.01 * u_xx;
    return residual.square().mean() + solution->forward(torch::rand({64, 2})).square().mean();
  });
}

Program neural_ode() {
  constexpr int64_t kBatch = 256, kSeen = 8, kState = 32, kWidth = 64;
  nn::Linear enter(kSeen, kState), leave(kState, 1);
  const auto weight = [](at::IntArrayRef sizes) { return (0.2 * torch::randn(sizes)).requires_grad_(); };
  const Tensor first = weight({kState, kWidth}), bias = weight({kWidth}), second = weight({kWidth, kState});
  std::vector<Tensor> parameters = parameters_of(enter, leave);
  parameters.insert(parameters.end(), {first, bias, second});
  return train_with_adam(parameters, [=]() mutable {
    Tensor state = torch::tanh(enter(torch::randn({kBatch, kSeen})));
    state = Adjoint::apply(state, first, bias, second);
    for (int t = 0; t < kMoments; ++t)
      state = state + change(state, {first, bias, second});  // and by the usual backward
    return leave(state).square().mean();
  });
}

}  // namespace retrace::test::programs
