// Writes: to intermediates, to buffers, and through whatever views the operand happens to be.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

// Writing a leaf that requires grad is an error at once; a few attempts are enough.
bool writable(const Tensor& t) { return !(t.is_leaf() && t.requires_grad()); }
bool writable_number(const Tensor& t) { return is_number(t) && writable(t); }
bool writable_real(const Tensor& t) { return is_real(t) && writable(t); }

bool propose_target(Chooser& chooser, Statement& s) { return chooser.operand(s, writable_number); }
bool propose_real_target(Chooser& chooser, Statement& s) { return chooser.operand(s, writable_real); }

bool propose_any_target(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1, 1)};
  return chooser.operand(s, chooser.dice.chance(0.95) ? writable_number : is_number);
}

bool propose_target_and_source(Chooser& chooser, Statement& s) {
  if (!propose_any_target(chooser, s)) return false;
  const Tensor target = chooser.operand_of(s, 0);
  const bool same_shape = chooser.dice.chance(0.8);
  return chooser.operand(s, [&](const Tensor& t) {
    return is_number(t) && (same_shape ? t.sizes() == target.sizes() : t.dim() <= target.dim());
  });
}

bool propose_target_and_two(Chooser& chooser, Statement& s) {
  if (!propose_target_and_source(chooser, s)) return false;
  const Tensor target = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_number(t) && t.sizes() == target.sizes(); });
}

bool propose_target_and_mask(Chooser& chooser, Statement& s) {
  if (!propose_any_target(chooser, s)) return false;
  const Tensor target = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_mask(t) && t.sizes() == target.sizes(); });
}

bool propose_row_write(Chooser& chooser, Statement& s) {
  const auto has_rows = [](const Tensor& t) { return writable_number(t) && t.dim() > 0 && t.size(0) > 0; };
  if (!chooser.operand(s, has_rows)) return false;
  const Tensor target = chooser.operand_of(s, 0);
  const auto row_sizes = target.sizes().slice(1).vec();
  s.ints = {chooser.dice.below(target.size(0))};
  return chooser.operand(s, [&](const Tensor& t) { return is_number(t) && t.sizes() == at::IntArrayRef(row_sizes); });
}

bool propose_indexed_write(Chooser& chooser, Statement& s) {
  const auto has_rows = [](const Tensor& t) { return writable_number(t) && t.dim() > 0 && t.size(0) > 0; };
  s.ints = {chooser.dice.below(2)};
  return chooser.operand(s, has_rows) &&
         chooser.operand(s, [](const Tensor& t) { return is_index(t) && t.dim() == 1 && t.numel() > 0; });
}

bool propose_buffer_update(Chooser& chooser, Statement& s) {
  const auto buffer = [](const Tensor& t) { return is_real(t) && t.is_leaf() && !t.requires_grad(); };
  if (!chooser.operand(s, buffer)) return false;
  const Tensor target = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_real(t) && t.sizes() == target.sizes(); });
}

Tensor wrapped_index(const Tensor& index, const Tensor& target) { return index.remainder(target.size(0)); }

}  // namespace

std::vector<Operator> in_place_operators() {
  return {
      {"add_", 4, Effect::writes, propose_target_and_source,
       [](const Call& c) -> Results { return c.in[0].add_(c.in[1], c.r(0)), Results{}; }},
      {"mul_", 4, Effect::writes, propose_target_and_source,
       [](const Call& c) -> Results { return c.in[0].mul_(c.in[1]), Results{}; }},
      {"sub_", 1, Effect::writes, propose_target_and_source,
       [](const Call& c) -> Results { return c.in[0].sub_(c.in[1]), Results{}; }},
      {"copy_", 3, Effect::writes, propose_target_and_source,
       [](const Call& c) -> Results { return c.in[0].copy_(c.in[1]), Results{}; }},
      {"addcmul_", 2, Effect::writes, propose_target_and_two,
       [](const Call& c) -> Results { return c.in[0].addcmul_(c.in[1], c.in[2], c.r(0)), Results{}; }},
      {"relu_", 4, Effect::writes, propose_real_target,
       [](const Call& c) -> Results { return c.in[0].relu_(), Results{}; }},
      {"sigmoid_", 2, Effect::writes, propose_target,
       [](const Call& c) -> Results { return c.in[0].sigmoid_(), Results{}; }},
      {"tanh_", 2, Effect::writes, propose_target, [](const Call& c) -> Results { return c.in[0].tanh_(), Results{}; }},
      {"clamp_", 1, Effect::writes, propose_real_target,
       [](const Call& c) -> Results { return c.in[0].clamp_(-0.5, 0.5), Results{}; }},
      {"zero_", 1, Effect::writes, propose_target, [](const Call& c) -> Results { return c.in[0].zero_(), Results{}; }},
      {"fill_", 1, Effect::writes, propose_any_target,
       [](const Call& c) -> Results { return c.in[0].fill_(c.r(0)), Results{}; }},
      {"scale_", 2, Effect::writes, propose_any_target,
       [](const Call& c) -> Results { return c.in[0].mul_(c.r(0)), Results{}; }},
      {"masked_fill_", 2, Effect::writes, propose_target_and_mask,
       [](const Call& c) -> Results { return c.in[0].masked_fill_(c.in[1], c.r(0)), Results{}; }},
      {"leaky_relu_", 1, Effect::writes, propose_real_target,
       [](const Call& c) -> Results {
         Tensor target = c.in[0];
         torch::leaky_relu_(target, 0.1);
         return {};
       }},
      {"row_copy_", 4, Effect::writes, propose_row_write,
       [](const Call& c) -> Results { return c.in[0].select(0, c.i(0)).copy_(c.in[1]), Results{}; }},
      {"row_add_", 2, Effect::writes, propose_row_write,
       [](const Call& c) -> Results { return c.in[0].narrow(0, c.i(0), 1).add_(c.in[1]), Results{}; }},
      {"column_mul_", 2, Effect::writes, propose_real_target,
       [](const Call& c) -> Results { return c.in[0].transpose(0, -1).select(0, 0).mul_(0.75), Results{}; }},
      {"diagonal_add_", 2, Effect::writes, propose_real_target,
       [](const Call& c) -> Results { return c.in[0].diagonal(0, -2, -1).add_(0.25), Results{}; }},
      {"index_put_", 3, Effect::writes, propose_indexed_write,
       [](const Call& c) -> Results {
         const Tensor index = wrapped_index(c.in[1], c.in[0]);
         const Tensor rows = c.in[0].detach().index({index}) * 0.5;
         c.in[0].index_put_({index}, rows, /*accumulate=*/c.i(0) != 0);
         return {};
       }},
      {"index_fill_", 1, Effect::writes, propose_indexed_write,
       [](const Call& c) -> Results {
         return c.in[0].index_fill_(0, wrapped_index(c.in[1], c.in[0]), 0.125), Results{};
       }},
      // What BatchNorm, EMA weights and codebooks do: a buffer moves on, outside of autograd.
      {"moving_average_", 4, Effect::writes, propose_buffer_update,
       [](const Call& c) -> Results {
         torch::NoGradGuard no_grad;
         c.in[0].mul_(0.9).add_(c.in[1].detach(), 0.1);
         return {};
       }},
      {"no_grad_scale_", 2, Effect::writes, propose_target,
       [](const Call& c) -> Results {
         torch::NoGradGuard no_grad;
         c.in[0].mul_(0.5);
         return {};
       }},
      {"detached_add_", 1, Effect::writes, propose_target,
       [](const Call& c) -> Results { return c.in[0].detach().add_(0.5), Results{}; }},
      {"increment_", 1, Effect::writes, [](Chooser& chooser, Statement& s) { return chooser.operand(s, is_index); },
       [](const Call& c) -> Results { return c.in[0].add_(1), Results{}; }},
      {"toggle_", 1, Effect::writes, [](Chooser& chooser, Statement& s) { return chooser.operand(s, is_mask); },
       [](const Call& c) -> Results { return c.in[0].logical_not_(), Results{}; }},
  };
}

}  // namespace retrace::random
