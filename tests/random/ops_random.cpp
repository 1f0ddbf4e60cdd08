// Operators that draw random numbers, from the default generator and from the program's own.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool propose_probability(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(0.1, 0.7)};
  return propose_real(chooser, s);
}

bool propose_writable_real(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(0.2, 0.8)};
  s.ints = {chooser.dice.below(2)};
  return chooser.operand(s, [](const Tensor& t) { return is_real(t) && !(t.is_leaf() && t.requires_grad()); });
}

bool propose_count(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 6), chooser.dice.below(2)};
  return true;
}

bool propose_draws(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 4), chooser.dice.below(2)};
  return chooser.operand(s,
                         [](const Tensor& t) { return is_real(t) && t.dim() >= 1 && t.dim() <= 2 && t.numel() > 0; });
}

// Calls `draw` with the program's generator if the first parameter says so, else with none: the default one.
template <class Draw>
Results drawn(const Call& c, size_t own, Draw draw) {
  if (c.i(own) != 0) return {draw(c.generator)};
  return {draw()};
}

}  // namespace

std::vector<Operator> random_operators() {
  return {
      {"dropout", 8, Effect::pure, propose_probability,
       [](const Call& c) -> Results { return {torch::dropout(c.in[0], c.r(0), true)}; }},
      {"dropout_", 2, Effect::writes, propose_writable_real,
       [](const Call& c) -> Results {
         Tensor target = c.in[0];
         torch::dropout_(target, c.r(0), true);
         return {};
       }},
      {"feature_dropout", 1, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.dim() >= 2; });
       },
       [](const Call& c) -> Results { return {torch::feature_dropout(c.in[0], 0.3, true)}; }},
      {"add_noise", 3, Effect::pure, propose_probability,
       [](const Call& c) -> Results { return {c.in[0] + torch::randn_like(c.in[0]) * c.r(0)}; }},
      {"mul_rand_like", 3, Effect::pure, propose_probability,
       [](const Call& c) -> Results { return {c.in[0] * torch::rand_like(c.in[0])}; }},
      {"bernoulli_mask", 2, Effect::pure, propose_writable_real,
       [](const Call& c) -> Results {
         return drawn(c, 0, [&](auto... g) { return c.in[0] * torch::empty_like(c.in[0]).bernoulli_(c.r(0), g...); });
       }},
      {"bernoulli_of", 1, Effect::pure, propose_writable_real,
       [](const Call& c) -> Results {
         return drawn(c, 0, [&](auto... g) { return torch::bernoulli(c.in[0].detach().sigmoid(), g...); });
       }},
      {"random_mask", 2, Effect::pure, propose_writable_real,
       [](const Call& c) -> Results {
         return drawn(c, 0, [&](auto... g) { return torch::rand(c.in[0].sizes(), g...) < c.r(0); });
       }},
      {"rrelu", 1, Effect::pure, propose_probability,
       [](const Call& c) -> Results { return {torch::rrelu(c.in[0], 0.1, 0.4, true)}; }},
      {"normal_", 2, Effect::writes, propose_writable_real,
       [](const Call& c) -> Results {
         drawn(c, 0, [&](auto... g) { return c.in[0].normal_(0, c.r(0), g...); });
         return {};
       }},
      {"uniform_", 1, Effect::writes, propose_writable_real,
       [](const Call& c) -> Results {
         drawn(c, 0, [&](auto... g) { return c.in[0].uniform_(-1, c.r(0), g...); });
         return {};
       }},
      {"bernoulli_", 1, Effect::writes, propose_writable_real,
       [](const Call& c) -> Results {
         drawn(c, 0, [&](auto... g) { return c.in[0].bernoulli_(c.r(0), g...); });
         return {};
       }},
      {"no_grad_normal_", 1, Effect::writes, propose_writable_real,
       [](const Call& c) -> Results {
         torch::NoGradGuard no_grad;
         drawn(c, 0, [&](auto... g) { return c.in[0].normal_(0, c.r(0), g...); });
         return {};
       }},
      {"randperm", 2, Effect::pure, propose_count,
       [](const Call& c) -> Results { return drawn(c, 1, [&](auto... g) { return torch::randperm(c.i(0), g...); }); }},
      {"randint", 1, Effect::pure, propose_count,
       [](const Call& c) -> Results {
         return drawn(c, 1, [&](auto... g) { return torch::randint(0, 8, {c.i(0)}, g..., torch::kLong); });
       }},
      {"multinomial", 2, Effect::pure, propose_draws,
       [](const Call& c) -> Results {
         const Tensor weights = c.in[0].detach().to(torch::kFloat).sigmoid();
         return drawn(c, 1, [&](auto... g) { return torch::multinomial(weights, c.i(0), true, g...); });
       }},
      // A step may reseed; what is rebuilt later must still use the state its operator saw.
      {"reseed", 1, Effect::pure, propose_count,
       [](const Call& c) -> Results { return torch::manual_seed(static_cast<uint64_t>(c.i(0))), Results{}; }},
  };
}

}  // namespace retrace::random
