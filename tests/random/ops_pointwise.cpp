// Element by element: what most of a model's saved tensors come from.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool propose_pair(Chooser& chooser, Statement& s) {
  if (chooser.dice.chance(0.7)) return propose_two_numbers(chooser, s);
  return propose_number(chooser, s) && propose_number(chooser, s);  // may broadcast; dropped if it does not
}

bool propose_scaled_pair(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1, 1)};
  return propose_pair(chooser, s);
}

bool propose_scaled(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1.5, 1.5), chooser.dice.real(-1, 1)};
  return propose_number(chooser, s);
}

bool propose_masked_pair(Chooser& chooser, Statement& s) {
  if (!propose_two_numbers(chooser, s)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_mask(t) && t.sizes() == first.sizes(); });
}

bool propose_masked(Chooser& chooser, Statement& s) {
  if (!propose_number(chooser, s)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  s.reals = {chooser.dice.real(-1, 1)};
  return chooser.operand(s, [&](const Tensor& t) { return is_mask(t) && t.sizes() == first.sizes(); });
}

bool propose_three(Chooser& chooser, Statement& s) {
  if (!propose_two_numbers(chooser, s)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  s.reals = {chooser.dice.real(-1, 1)};
  return chooser.operand(s, [&](const Tensor& t) { return is_number(t) && t.sizes() == first.sizes(); });
}

bool propose_cast(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(4)};
  return propose_number(chooser, s);
}

bool propose_integers(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 5)};
  return chooser.operand(s, is_index);
}

bool propose_item(Chooser& chooser, Statement& s) {
  return propose_number(chooser, s) && chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.numel() > 0; });
}

std::vector<Operator> unary_operators() {
  return {
      {"tanh", 3, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].tanh()}; }},
      {"sigmoid", 3, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].sigmoid()}; }},
      {"relu", 3, Effect::pure, propose_real, [](const Call& c) -> Results { return {c.in[0].relu()}; }},
      // Not the default form: LibTorch 1.13's backward of that reads beyond a gradient that is not contiguous.
      {"gelu", 2, Effect::pure, propose_real, [](const Call& c) -> Results { return {torch::gelu(c.in[0], "tanh")}; }},
      {"silu", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {torch::silu(c.in[0])}; }},
      {"elu", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {torch::elu(c.in[0])}; }},
      {"softplus", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {torch::softplus(c.in[0])}; }},
      {"exp_tanh", 2, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].tanh().exp()}; }},
      {"sin", 2, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].sin()}; }},
      {"cos", 2, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].cos()}; }},
      {"neg", 1, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].neg()}; }},
      {"abs", 1, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].abs()}; }},
      {"square", 2, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].square()}; }},
      {"log1p_abs", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {c.in[0].abs().log1p()}; }},
      {"sqrt_abs1", 1, Effect::pure, propose_real,
       [](const Call& c) -> Results { return {(c.in[0].abs() + 1).sqrt()}; }},
      {"erf", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {c.in[0].erf()}; }},
      {"clamp", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {c.in[0].clamp(-0.4, 0.6)}; }},
      {"round", 1, Effect::pure, propose_real, [](const Call& c) -> Results { return {(c.in[0] * 3).round()}; }},
      {"clone", 1, Effect::pure, propose_anything, [](const Call& c) -> Results { return {c.in[0].clone()}; }},
      {"conj", 1, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].conj()}; }},
      {"sum_of_parts", 1, Effect::pure, propose_number,
       [](const Call& c) -> Results {
         if (!c.in[0].is_complex()) return {c.in[0].detach()};
         return {torch::real(c.in[0]) + torch::imag(c.in[0])};
       }},
      {"to_complex", 1, Effect::pure, propose_two_reals,
       [](const Call& c) -> Results { return {torch::complex(c.in[0].to(torch::kFloat), c.in[1].to(torch::kFloat))}; }},
      {"scale", 3, Effect::pure, propose_scaled, [](const Call& c) -> Results { return {c.in[0] * c.r(0) + c.r(1)}; }},
      {"cast", 2, Effect::pure, propose_cast,
       [](const Call& c) -> Results {
         static const torch::ScalarType types[] = {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kLong};
         const auto type = types[c.i(0)];
         return {c.in[0].is_complex() ? c.in[0].to(torch::kComplexDouble) : c.in[0].to(type)};
       }},
      {"remainder", 1, Effect::pure, propose_integers,
       [](const Call& c) -> Results { return {c.in[0].remainder(c.i(0))}; }},
      {"logical_not", 1, Effect::pure, propose_anything,
       [](const Call& c) -> Results { return {c.in[0].logical_not()}; }},
  };
}

std::vector<Operator> binary_operators() {
  return {
      {"add", 4, Effect::pure, propose_scaled_pair,
       [](const Call& c) -> Results { return {c.in[0].add(c.in[1], c.r(0))}; }},
      {"sub", 2, Effect::pure, propose_pair, [](const Call& c) -> Results { return {c.in[0] - c.in[1]}; }},
      {"mul", 6, Effect::pure, propose_pair, [](const Call& c) -> Results { return {c.in[0] * c.in[1]}; }},
      {"div", 2, Effect::pure, propose_pair, [](const Call& c) -> Results { return {c.in[0] / (c.in[1].abs() + 1)}; }},
      {"maximum", 1, Effect::pure, propose_two_reals,
       [](const Call& c) -> Results { return {torch::maximum(c.in[0], c.in[1])}; }},
      {"minimum", 1, Effect::pure, propose_two_reals,
       [](const Call& c) -> Results { return {torch::minimum(c.in[0], c.in[1])}; }},
      {"atan2", 1, Effect::pure, propose_two_reals, [](const Call& c) -> Results { return {c.in[0].atan2(c.in[1])}; }},
      {"lerp", 1, Effect::pure, propose_two_reals,
       [](const Call& c) -> Results { return {c.in[0].lerp(c.in[1], 0.3)}; }},
      {"greater", 2, Effect::pure, propose_two_reals, [](const Call& c) -> Results { return {c.in[0] > c.in[1]}; }},
      {"equal_to", 1, Effect::pure, propose_two_numbers,
       [](const Call& c) -> Results { return {c.in[0].eq(c.in[1])}; }},
      {"where", 2, Effect::pure, propose_masked_pair,
       [](const Call& c) -> Results { return {torch::where(c.in[2], c.in[0], c.in[1])}; }},
      {"masked_fill", 2, Effect::pure, propose_masked,
       [](const Call& c) -> Results { return {c.in[0].masked_fill(c.in[1], c.r(0))}; }},
      {"addcmul", 1, Effect::pure, propose_three,
       [](const Call& c) -> Results { return {torch::addcmul(c.in[0], c.in[1], c.in[2], c.r(0))}; }},
      {"addcdiv", 1, Effect::pure, propose_three,
       [](const Call& c) -> Results { return {torch::addcdiv(c.in[0], c.in[1], c.in[2].abs() + 1, c.r(0))}; }},
      // A number read from one tensor becomes a constant of the graph: it must not be read again.
      {"times_item", 2, Effect::pure, propose_item,
       [](const Call& c) -> Results {
         return {c.in[0] * c.in[1].detach().to(torch::kDouble).mean().tanh().item<double>()};
       }},
  };
}

}  // namespace

std::vector<Operator> pointwise_operators() {
  std::vector<Operator> family = unary_operators();
  const auto binary = binary_operators();
  family.insert(family.end(), binary.begin(), binary.end());
  return family;
}

}  // namespace retrace::random
