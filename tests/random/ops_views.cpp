// Views: no new memory, only another geometry. Later statements read and write through them.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool propose_dims(Chooser& chooser, Statement& s, int64_t at_least) {
  if (!chooser.operand(s, [&](const Tensor& t) { return t.dim() >= at_least; })) return false;
  const Tensor& t = chooser.operand_of(s, 0);
  s.ints = {chooser.dice.below(t.dim()), chooser.dice.below(t.dim())};
  return true;
}

bool propose_dim(Chooser& chooser, Statement& s) { return propose_dims(chooser, s, 1); }
bool propose_two_dims(Chooser& chooser, Statement& s) { return propose_dims(chooser, s, 2); }

bool propose_position(Chooser& chooser, Statement& s) {
  if (!propose_dim(chooser, s)) return false;
  const int64_t size = chooser.operand_of(s, 0).size(s.ints[0]);
  if (size == 0) return false;
  s.ints[1] = chooser.dice.below(size);
  return true;
}

bool propose_range(Chooser& chooser, Statement& s) {
  if (!propose_dim(chooser, s)) return false;
  const int64_t size = chooser.operand_of(s, 0).size(s.ints[0]);
  s.ints[1] = chooser.dice.between(0, size);
  s.ints.push_back(chooser.dice.between(0, size - s.ints[1]));
  s.ints.push_back(chooser.dice.between(1, 2));
  return true;
}

bool propose_unsqueeze(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return t.dim() < 4; })) return false;
  s.ints = {chooser.dice.between(0, chooser.operand_of(s, 0).dim()), chooser.dice.between(1, 3)};
  return true;
}

bool propose_window(Chooser& chooser, Statement& s) {
  if (!propose_dim(chooser, s)) return false;
  const int64_t size = chooser.operand_of(s, 0).size(s.ints[0]);
  if (size < 2) return false;
  s.ints[1] = chooser.dice.between(1, size);
  s.ints.push_back(chooser.dice.between(1, 2));
  return true;
}

bool propose_strided(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return is_number(t) && t.numel() >= 4 && t.is_contiguous(); }))
    return false;
  const int64_t n = chooser.operand_of(s, 0).numel();
  const int64_t stride = chooser.dice.between(1, 2);
  s.ints = {chooser.dice.between(1, (n - 1) / stride), stride, chooser.dice.below(2)};
  return true;
}

Tensor flattened_in_two(const Tensor& t) {
  const int64_t n = t.numel();
  return n % 2 == 0 && n > 0 ? t.view({2, n / 2}) : t.view({-1});
}

}  // namespace

std::vector<Operator> view_operators() {
  return {
      {"view", 3, Effect::pure, propose_anything, [](const Call& c) -> Results { return {flattened_in_two(c.in[0])}; }},
      {"reshape", 2, Effect::pure, propose_anything, [](const Call& c) -> Results { return {c.in[0].reshape({-1})}; }},
      {"transpose", 3, Effect::pure, propose_two_dims,
       [](const Call& c) -> Results { return {c.in[0].transpose(c.i(0), c.i(1))}; }},
      {"movedim", 1, Effect::pure, propose_two_dims,
       [](const Call& c) -> Results { return {c.in[0].movedim(c.i(0), c.i(1))}; }},
      {"select", 3, Effect::pure, propose_position,
       [](const Call& c) -> Results { return {c.in[0].select(c.i(0), c.i(1))}; }},
      {"narrow", 3, Effect::pure, propose_range,
       [](const Call& c) -> Results { return {c.in[0].narrow(c.i(0), c.i(1), c.i(2))}; }},
      {"slice", 2, Effect::pure, propose_range,
       [](const Call& c) -> Results { return {c.in[0].slice(c.i(0), c.i(1), c.i(1) + c.i(2), c.i(3))}; }},
      {"unsqueeze", 1, Effect::pure, propose_unsqueeze,
       [](const Call& c) -> Results { return {c.in[0].unsqueeze(c.i(0))}; }},
      {"expand", 2, Effect::pure, propose_unsqueeze,
       [](const Call& c) -> Results {
         auto sizes = c.in[0].sizes().vec();
         sizes.insert(sizes.begin(), c.i(1));
         return {c.in[0].expand(sizes)};
       }},
      {"squeeze", 1, Effect::pure, propose_anything, [](const Call& c) -> Results { return {c.in[0].squeeze()}; }},
      {"flatten", 1, Effect::pure, propose_anything, [](const Call& c) -> Results { return {c.in[0].flatten()}; }},
      {"diagonal", 2, Effect::pure, propose_two_dims,
       [](const Call& c) -> Results { return {c.in[0].diagonal(0, c.i(0), c.i(1))}; }},
      {"unfold", 2, Effect::pure, propose_window,
       [](const Call& c) -> Results { return {c.in[0].unfold(c.i(0), c.i(1), c.i(2))}; }},
      {"as_strided", 2, Effect::pure, propose_strided,
       [](const Call& c) -> Results {
         return {c.in[0].as_strided({c.i(0)}, {c.i(1)}, c.in[0].storage_offset() + c.i(2))};
       }},
      {"unbind", 1, Effect::pure, propose_dim, [](const Call& c) -> Results { return c.in[0].unbind(c.i(0)); }},
      {"alias", 1, Effect::pure, propose_anything, [](const Call& c) -> Results { return {c.in[0].alias()}; }},
      {"contiguous", 2, Effect::pure, propose_anything,
       [](const Call& c) -> Results { return {c.in[0].contiguous()}; }},
      {"view_as_real", 1, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s, [](const Tensor& t) { return t.is_complex(); });
       },
       [](const Call& c) -> Results { return {torch::view_as_real(c.in[0].resolve_conj())}; }},
      {"real_part", 1, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s, [](const Tensor& t) { return t.is_complex(); });
       },
       [](const Call& c) -> Results { return {torch::real(c.in[0])}; }},
      {"view_dtype", 1, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s,
                                [](const Tensor& t) { return t.scalar_type() == torch::kFloat && !t.requires_grad(); });
       },
       [](const Call& c) -> Results { return {c.in[0].view(torch::kInt).bitwise_and(0x7).to(torch::kLong)}; }},
      {"no_grad_view", 1, Effect::pure, propose_anything,
       [](const Call& c) -> Results {
         torch::NoGradGuard no_grad;
         return {c.in[0].unsqueeze(0)};
       }},
  };
}

bool makes_view(const std::string& op) {
  static const std::vector<Operator> views = view_operators();
  return std::any_of(views.begin(), views.end(), [&](const Operator& view) { return view.name == op; });
}

}  // namespace retrace::random
