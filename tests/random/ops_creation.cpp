// Tensors made inside the program: factories, and memory written behind the dispatcher's back.
#include <cstring>

#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

bool propose_sizes(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 4), chooser.dice.between(1, 4)};
  s.reals = {chooser.dice.real(-1, 1)};
  return true;
}

bool propose_like(Chooser& chooser, Statement& s) {
  s.reals = {chooser.dice.real(-1, 1)};
  return chooser.operand(s, [](const Tensor& t) { return t.scalar_type() == torch::kFloat && t.numel() > 0; });
}

bool propose_two_rows(Chooser& chooser, Statement& s) {
  const auto fits = [](const Tensor& t) { return is_number(t) && t.dim() >= 1; };
  if (!chooser.operand(s, fits)) return false;
  const Tensor first = chooser.operand_of(s, 0);
  return chooser.operand(s, [&](const Tensor& t) {
    return fits(t) && t.scalar_type() == first.scalar_type() && t.sizes().slice(1) == first.sizes().slice(1);
  });
}

void fill_by_pointer(const Tensor& t, double start, int64_t step) {
  auto* data = t.data_ptr<float>();
  for (int64_t k = 0; k < t.numel(); k += step)
    data[k] = static_cast<float>(start + 0.03125 * static_cast<double>(k % 7));
}

// Uninitialised memory written piece by piece, so that every element has been written before anything reads.
Tensor joined_by_pieces(const Tensor& a, const Tensor& b) {
  auto sizes = a.sizes().vec();
  sizes[0] = a.size(0) + b.size(0);
  Tensor joined = torch::empty(sizes, a.options());
  joined.narrow(0, 0, a.size(0)).copy_(a);
  joined.narrow(0, a.size(0), b.size(0)).copy_(b);
  return joined;
}

}  // namespace

std::vector<Operator> creation_operators() {
  return {
      {"zeros", 2, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         return {torch::zeros({c.i(0), c.i(1)})};
       }},
      {"ones", 1, Effect::pure, propose_sizes, [](const Call& c) -> Results { return {torch::ones({c.i(0)})}; }},
      {"full", 1, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         return {torch::full({c.i(0), c.i(1)}, c.r(0))};
       }},
      {"arange", 1, Effect::pure, propose_sizes,
       [](const Call& c) -> Results { return {torch::arange(c.i(0) * c.i(1))}; }},
      {"linspace", 1, Effect::pure, propose_sizes,
       [](const Call& c) -> Results { return {torch::linspace(-1, c.r(0), c.i(0) * c.i(1))}; }},
      {"literal", 1, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         return {torch::tensor(std::vector<double>{c.r(0), 0.5, -0.25})};
       }},
      {"scalar_tensor", 1, Effect::pure, propose_sizes,
       [](const Call& c) -> Results { return {torch::tensor(c.r(0))}; }},
      {"zeros_like", 2, Effect::pure, propose_like,
       [](const Call& c) -> Results { return {torch::zeros_like(c.in[0])}; }},
      {"one_hot", 1, Effect::pure, [](Chooser& chooser, Statement& s) { return chooser.operand(s, is_index); },
       [](const Call& c) -> Results { return {torch::one_hot(c.in[0].remainder(4), 4).to(torch::kFloat)}; }},
      {"empty_by_pointer", 4, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         Tensor t = torch::empty({c.i(0), c.i(1)});
         fill_by_pointer(t, c.r(0), 1);
         return {t};
       }},
      {"empty_like_by_pointer", 2, Effect::pure, propose_like,
       [](const Call& c) -> Results {
         Tensor t = torch::empty_like(c.in[0], at::MemoryFormat::Contiguous);
         fill_by_pointer(t, c.r(0), 1);
         return {t};
       }},
      // The usual way to fill a tensor from C++: zeros, then an accessor.
      {"zeros_by_pointer", 4, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         Tensor t = torch::zeros({c.i(0), c.i(1)});
         fill_by_pointer(t, c.r(0), 2);
         return {t};
       }},
      {"from_blob", 2, Effect::pure, propose_sizes,
       [](const Call& c) -> Results {
         std::vector<float> data(static_cast<size_t>(c.i(0) * c.i(1)), static_cast<float>(c.r(0)));
         return {torch::from_blob(data.data(), {c.i(0), c.i(1)}).clone()};
       }},
      {"joined_by_pieces", 4, Effect::pure, propose_two_rows,
       [](const Call& c) -> Results { return {joined_by_pieces(c.in[0], c.in[1])}; }},
      {"empty_like_copied", 2, Effect::pure, propose_number,
       [](const Call& c) -> Results { return {torch::empty_like(c.in[0]).copy_(c.in[0])}; }},
      // An out= form: the destination is resized, then written.
      {"mul_out", 1, Effect::pure, propose_like,
       [](const Call& c) -> Results {
         Tensor out = torch::empty({0});
         return {torch::mul_out(out, c.in[0].detach(), c.in[0].detach())};
       }},
  };
}

}  // namespace retrace::random
