// Joining, splitting, indexing, gathering and scattering.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

bool propose_join(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return t.dim() > 0; })) return false;
  const Tensor first = chooser.operand_of(s, 0);
  const int64_t others = chooser.dice.between(1, 2);
  for (int64_t k = 0; k < others; ++k) {
    if (!chooser.operand(
            s, [&](const Tensor& t) { return t.sizes() == first.sizes() && t.scalar_type() == first.scalar_type(); })) {
      return false;
    }
  }
  s.ints = {chooser.dice.below(first.dim())};
  return true;
}

bool propose_pieces(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return t.dim() > 0 && t.numel() > 0; })) return false;
  const Tensor& t = chooser.operand_of(s, 0);
  const int64_t dim = chooser.dice.below(t.dim());
  s.ints = {dim, chooser.dice.between(1, t.size(dim))};
  return true;
}

// in = a number, a vector of indices; ints = dimension
bool propose_rows(Chooser& chooser, Statement& s) {
  return propose_number_and_dim(chooser, s) &&
         chooser.operand(s, [](const Tensor& t) { return is_index(t) && t.dim() == 1; });
}

bool propose_pick(Chooser& chooser, Statement& s) {
  if (!propose_number_and_dim(chooser, s)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_index(t) && t.dim() == first.dim(); });
}

bool propose_selected_by_mask(Chooser& chooser, Statement& s) {
  if (!propose_number(chooser, s)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) { return is_mask(t) && t.sizes() == first.sizes(); });
}

bool propose_square(Chooser& chooser, Statement& s) {
  return chooser.operand(s, [](const Tensor& t) { return is_number(t) && t.dim() >= 2; });
}

// Clamps an index tensor to what gather and scatter accept for `self` along `dim`.
Tensor fitting_index(const Tensor& index, const Tensor& self, int64_t dim) {
  Tensor fitting = index;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim && fitting.size(d) > self.size(d)) fitting = fitting.narrow(d, 0, self.size(d));
  }
  return fitting.remainder(self.size(dim));
}

}  // namespace

std::vector<Operator> layout_operators() {
  return {
      {"cat", 3, Effect::pure, propose_join, [](const Call& c) -> Results { return {torch::cat(c.in, c.i(0))}; }},
      {"stack", 2, Effect::pure, propose_join, [](const Call& c) -> Results { return {torch::stack(c.in, c.i(0))}; }},
      {"split", 2, Effect::pure, propose_pieces,
       [](const Call& c) -> Results { return c.in[0].split(c.i(1), c.i(0)); }},
      {"chunk", 2, Effect::pure, propose_pieces, [](const Call& c) -> Results { return c.in[0].chunk(2, c.i(0)); }},
      {"roll", 1, Effect::pure, propose_pieces,
       [](const Call& c) -> Results { return {c.in[0].roll(c.i(1), c.i(0))}; }},
      {"flip", 1, Effect::pure, propose_pieces, [](const Call& c) -> Results { return {c.in[0].flip({c.i(0)})}; }},
      {"repeat", 1, Effect::pure, propose_pieces,
       [](const Call& c) -> Results { return {c.in[0].repeat_interleave(2, c.i(0))}; }},
      {"index_select", 2, Effect::pure, propose_rows,
       [](const Call& c) -> Results {
         return {c.in[0].index_select(c.i(0), c.in[1].remainder(c.in[0].size(c.i(0))))};
       }},
      {"index", 3, Effect::pure, propose_rows,
       [](const Call& c) -> Results { return {c.in[0].index({c.in[1].remainder(c.in[0].size(0))})}; }},
      {"index_slices", 1, Effect::pure, propose_square,
       [](const Call& c) -> Results {
         return {c.in[0].index({Slice(None, None, 2), Slice(0, 1)})};
       }},
      {"index_mask", 1, Effect::pure, propose_selected_by_mask,
       [](const Call& c) -> Results { return {c.in[0].index({c.in[1]})}; }},
      {"masked_select", 1, Effect::pure, propose_selected_by_mask,
       [](const Call& c) -> Results { return {c.in[0].masked_select(c.in[1])}; }},
      {"gather", 2, Effect::pure, propose_pick,
       [](const Call& c) -> Results { return {c.in[0].gather(c.i(0), fitting_index(c.in[1], c.in[0], c.i(0)))}; }},
      {"scatter_add", 2, Effect::pure, propose_pick,
       [](const Call& c) -> Results {
         const Tensor index = fitting_index(c.in[1], c.in[0], c.i(0));
         return {c.in[0].scatter_add(c.i(0), index, c.in[0].gather(c.i(0), index).sin())};
       }},
      {"index_add", 1, Effect::pure, propose_rows,
       [](const Call& c) -> Results {
         const Tensor index = c.in[1].remainder(c.in[0].size(c.i(0)));
         return {c.in[0].index_add(c.i(0), index, c.in[0].index_select(c.i(0), index))};
       }},
      {"index_put", 1, Effect::pure, propose_rows,
       [](const Call& c) -> Results {
         const Tensor index = c.in[1].remainder(c.in[0].size(0));
         return {c.in[0].index_put({index}, c.in[0].index({index}).cos(), /*accumulate=*/true)};
       }},
      {"tril", 1, Effect::pure, propose_square, [](const Call& c) -> Results { return {c.in[0].tril()}; }},
      {"pad", 1, Effect::pure, propose_pieces,
       [](const Call& c) -> Results {
         return {torch::constant_pad_nd(c.in[0], {1, 0}, 0.5)};
       }},
      {"meshgrid", 1, Effect::pure, propose_pieces,
       [](const Call& c) -> Results {
         return torch::meshgrid({c.in[0].flatten(), c.in[0].flatten().slice(0, 0, 2)}, "ij");
       }},
  };
}

}  // namespace retrace::random
