// Backward passes as statements: they may stand anywhere, also inside a region, and be followed by more forward.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool differentiable(const Tensor& t) { return is_number(t) && t.requires_grad() && !t.is_leaf(); }

// ints = retain the graph
bool propose_backward(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.chance(0.75) ? 1 : 0};
  return chooser.operand(s, differentiable);
}

// in = what to differentiate, then with respect to what; ints = create a graph
bool propose_grad(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.chance(0.5) ? 1 : 0};
  if (!chooser.operand(s, differentiable)) return false;
  const int64_t inputs = chooser.dice.between(1, 2);
  for (int64_t k = 0; k < inputs; ++k) {
    if (!chooser.operand(s, [](const Tensor& t) { return t.requires_grad(); })) return false;
  }
  return true;
}

bool propose_differentiable(Chooser& chooser, Statement& s) { return chooser.operand(s, differentiable); }

bool propose_update(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(3)};
  s.reals = {0.05};
  return true;
}

Tensor seed_gradient(const Tensor& t) { return torch::full_like(t, 0.5); }

// What an optimizer does to a leaf, in the three ways optimizers do it.
void update_leaf(const Tensor& leaf, int64_t way, double rate) {
  if (!leaf.grad().defined()) return;
  torch::NoGradGuard no_grad;
  if (way == 0) leaf.add_(leaf.grad(), -rate);
  if (way == 1) leaf.mul_(1 - rate).addcmul_(leaf.grad(), leaf.grad().abs(), -rate);
  if (way == 2) leaf.copy_(leaf - leaf.grad().sign() * rate);
}

void clear_gradient(const Tensor& leaf, int64_t way) {
  if (!leaf.grad().defined()) return;
  if (way == 0) leaf.mutable_grad() = Tensor();
  if (way == 1) leaf.mutable_grad().detach_().zero_();
}

// A number of any type as something to add up in double.
Tensor summand(const Tensor& t) {
  const Tensor real = t.is_complex() ? torch::view_as_real(t.resolve_conj()) : t;
  return real.to(torch::kDouble);
}

}  // namespace

std::vector<Operator> autograd_operators() {
  return {
      {"backward", 1, Effect::autograd, propose_backward,
       [](const Call& c) -> Results {
         torch::autograd::backward({c.in[0]}, {seed_gradient(c.in[0])}, /*retain_graph=*/c.i(0) != 0);
         return {};
       }},
      {"grad", 3, Effect::autograd, propose_grad,
       [](const Call& c) -> Results {
         const std::vector<Tensor> inputs(c.in.begin() + 1, c.in.end());
         return torch::autograd::grad({c.in[0]}, inputs, {seed_gradient(c.in[0])}, /*retain_graph=*/true,
                                      /*create_graph=*/c.i(0) != 0, /*allow_unused=*/true);
       }},
      {"detach", 2, Effect::pure, propose_differentiable, [](const Call& c) -> Results { return {c.in[0].detach()}; }},
      {"fresh_leaf", 1, Effect::pure, propose_differentiable,
       [](const Call& c) -> Results { return {c.in[0].detach().clone().requires_grad_()}; }},
      // On results of their own: LibTorch 1.13 crashes on a second hook after an in-place change.
      {"retain_grad", 1, Effect::pure, propose_differentiable,
       [](const Call& c) -> Results {
         const Tensor retaining = c.in[0] * 1;
         retaining.retain_grad();
         return {retaining};
       }},
      {"hook", 1, Effect::pure, propose_differentiable,
       [](const Call& c) -> Results {
         const Tensor hooked = c.in[0] * 1;
         hooked.register_hook([](Tensor g) { return g * 0.5; });
         return {hooked};
       }},
      {"no_grad_part", 1, Effect::pure, propose_differentiable,
       [](const Call& c) -> Results {
         torch::NoGradGuard no_grad;
         return {c.in[0].sigmoid() * 2};
       }},
      // Weight 0: the generator places these itself, at the end of a step.
      {"update", 0, Effect::autograd, propose_update,
       [](const Call& c) -> Results {
         for (const Tensor& leaf : *c.leaves) update_leaf(leaf, c.i(0), c.r(0));
         return {};
       }},
      {"clear_gradients", 0, Effect::autograd, propose_update,
       [](const Call& c) -> Results {
         for (const Tensor& leaf : *c.leaves) clear_gradient(leaf, c.i(0) % 2);
         return {};
       }},
      {"loss", 0, Effect::pure, propose_differentiable,
       [](const Call& c) -> Results {
         Tensor total = summand(c.in[0]).square().sum();
         for (size_t k = 1; k < c.in.size(); ++k)
           total = total + (summand(c.in[k]) * (0.5 + 0.25 * static_cast<double>(k))).sum();
         return {total};
       }},
  };
}

}  // namespace retrace::random
