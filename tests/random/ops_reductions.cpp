// Reductions, sorting and matrix products.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool has_elements(const Tensor& t) { return is_plain_number(t); }

bool propose_full_number(Chooser& chooser, Statement& s) { return chooser.operand(s, has_elements); }

bool propose_matmul(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return is_number(t) && t.dim() >= 1; })) return false;
  const Tensor left = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) {
    return t.dim() >= 1 && t.scalar_type() == left.scalar_type() &&
           t.size(t.dim() >= 2 ? t.dim() - 2 : 0) == left.size(left.dim() - 1);
  });
}

bool propose_bmm(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return is_number(t) && t.dim() == 3; })) return false;
  const Tensor left = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) {
    return t.dim() == 3 && t.scalar_type() == left.scalar_type() && t.size(0) == left.size(0) &&
           t.size(2) == left.size(2);
  });
}

bool propose_addmm(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1, 1), chooser.dice.real(-1, 1)};
  if (!chooser.operand(s, [](const Tensor& t) { return is_number(t) && t.dim() == 2; })) return false;
  const Tensor left = chooser.operand_of(s, 0);
  if (!chooser.operand(s, [&](const Tensor& t) {
        return t.dim() == 2 && t.scalar_type() == left.scalar_type() && t.size(0) == left.size(1);
      })) {
    return false;
  }
  const Tensor right = chooser.operand_of(s, 1);
  return chooser.operand(s, [&](const Tensor& t) {
    return t.scalar_type() == left.scalar_type() && t.dim() >= 1 && t.dim() <= 2 &&
           t.size(t.dim() - 1) == right.size(1) && (t.dim() == 1 || t.size(0) == left.size(0));
  });
}

bool propose_top(Chooser& chooser, Statement& s) {
  if (!propose_real_and_dim(chooser, s)) return false;
  s.ints.push_back(chooser.dice.between(1, chooser.operand_of(s, 0).size(s.ints[0])));
  return true;
}

}  // namespace

std::vector<Operator> reduction_operators() {
  return {
      {"sum", 1, Effect::pure, propose_number, [](const Call& c) -> Results { return {c.in[0].sum()}; }},
      {"sum_dim", 2, Effect::pure, propose_number_and_dim,
       [](const Call& c) -> Results { return {c.in[0].sum(c.i(0))}; }},
      {"mean_dim", 2, Effect::pure, propose_number_and_dim,
       [](const Call& c) -> Results { return {c.in[0].mean(c.i(0), true)}; }},
      {"prod", 1, Effect::pure, propose_real_and_dim, [](const Call& c) -> Results { return {c.in[0].prod(c.i(0))}; }},
      {"max_dim", 2, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results {
         auto [values, indices] = c.in[0].max(c.i(0));
         return {values, indices};
       }},
      {"amin", 1, Effect::pure, propose_real_and_dim, [](const Call& c) -> Results { return {c.in[0].amin(c.i(0))}; }},
      {"argmax", 1, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results { return {c.in[0].argmax(c.i(0))}; }},
      {"var_mean", 1, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results {
         auto [variance, mean] = torch::var_mean(c.in[0], at::IntArrayRef{c.i(0)}, /*unbiased=*/false);
         return {variance, mean};
       }},
      {"norm", 1, Effect::pure, propose_full_number, [](const Call& c) -> Results { return {(c.in[0] + 2).norm()}; }},
      {"logsumexp", 1, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results { return {torch::logsumexp(c.in[0], at::IntArrayRef{c.i(0)})}; }},
      {"softmax", 3, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results { return {torch::softmax(c.in[0], c.i(0))}; }},
      {"log_softmax", 2, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results { return {torch::log_softmax(c.in[0], c.i(0))}; }},
      {"cumsum", 1, Effect::pure, propose_number_and_dim,
       [](const Call& c) -> Results { return {c.in[0].cumsum(c.i(0))}; }},
      {"cumprod", 1, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results { return {c.in[0].cumprod(c.i(0))}; }},
      {"sort", 1, Effect::pure, propose_real_and_dim,
       [](const Call& c) -> Results {
         auto [values, indices] = c.in[0].sort(c.i(0));
         return {values, indices};
       }},
      {"topk", 1, Effect::pure, propose_top,
       [](const Call& c) -> Results {
         auto [values, indices] = c.in[0].topk(c.i(1), c.i(0));
         return {values, indices};
       }},
      {"matmul", 6, Effect::pure, propose_matmul,
       [](const Call& c) -> Results { return {torch::matmul(c.in[0], c.in[1])}; }},
      {"matmul_transposed", 3, Effect::pure, propose_two_numbers,
       [](const Call& c) -> Results { return {torch::matmul(c.in[0], c.in[1].transpose(-1, -2))}; }},
      {"bmm", 2, Effect::pure, propose_bmm,
       [](const Call& c) -> Results { return {torch::bmm(c.in[0], c.in[1].transpose(1, 2))}; }},
      {"addmm", 2, Effect::pure, propose_addmm,
       [](const Call& c) -> Results { return {torch::addmm(c.in[2], c.in[0], c.in[1], c.r(0), c.r(1))}; }},
  };
}

}  // namespace retrace::random
