// What models are built from: normalisation, linear and convolution layers, pooling, embeddings, losses, attention.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

bool propose_rows_of_reals(Chooser& chooser, Statement& s) {
  return chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.dim() >= 1 && t.size(-1) > 0; });
}

// Adds a vector of `width` of the same type: a weight, a bias, a running statistic. A statistic is contiguous: in
// evaluation LibTorch 1.13's backward reads another as if it were, and beyond it.
// A buffer is a leaf: it will be written without being counted, which no autograd notices if it has saved it.
bool add_vector(Chooser& chooser, Statement& s, int64_t width, bool buffer = false) {
  const auto type = chooser.operand_of(s, 0).scalar_type();
  const bool found = chooser.operand(s, [&](const Tensor& t) {
    return t.scalar_type() == type && t.dim() == 1 && t.size(0) == width &&
           !(buffer && (t.requires_grad() || !t.is_leaf() || !t.is_contiguous()));
  });
  return found && !(buffer && s.in.back() >= chooser.leaves);
}

bool propose_layer_norm(Chooser& chooser, Statement& s) {
  if (!propose_rows_of_reals(chooser, s)) return false;
  const int64_t width = chooser.operand_of(s, 0).size(-1);
  return add_vector(chooser, s, width) && add_vector(chooser, s, width);
}

// in = x, weight, bias, running mean, running variance, batches seen; ints = training
bool propose_batch_norm(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s,
                       [](const Tensor& t) { return is_real(t) && t.dim() >= 2 && t.size(0) > 1 && t.numel() > 0; })) {
    return false;
  }
  const int64_t width = chooser.operand_of(s, 0).size(1);
  s.ints = {chooser.dice.chance(0.8) ? 1 : 0};
  return add_vector(chooser, s, width) && add_vector(chooser, s, width) && add_vector(chooser, s, width, true) &&
         add_vector(chooser, s, width, true) &&
         chooser.operand(s, [](const Tensor& t) { return is_index(t) && t.dim() == 0 && t.is_leaf(); });
}

bool propose_linear(Chooser& chooser, Statement& s) {
  if (!propose_rows_of_reals(chooser, s)) return false;
  const Tensor x = chooser.operand_of(s, 0);
  if (!chooser.operand(s, [&](const Tensor& t) {
        return t.dim() == 2 && t.scalar_type() == x.scalar_type() && t.size(1) == x.size(-1);
      })) {
    return false;
  }
  return add_vector(chooser, s, chooser.operand_of(s, 1).size(0));
}

bool propose_image(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.between(1, 3), chooser.dice.below(2)};
  return chooser.operand(s, [](const Tensor& t) {
    return is_real(t) && t.scalar_type() != torch::kBFloat16 && t.numel() >= 9 && t.numel() <= 200;
  });
}

bool propose_classes(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.dim() == 2 && t.numel() > 0; })) return false;
  const Tensor logits = chooser.operand_of(s, 0);
  return chooser.operand(s,
                         [&](const Tensor& t) { return is_index(t) && t.dim() == 1 && t.size(0) >= logits.size(0); });
}

bool propose_embedding(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.dim() == 2 && t.size(0) > 0; })) return false;
  return chooser.operand(s, is_index);
}

// The flat data as one small image, and a kernel made of its own first elements: convolutions at any shape.
Tensor as_image(const Tensor& t) {
  const int64_t side = t.numel() >= 16 ? 4 : 3;
  return t.reshape({-1}).slice(0, 0, side * side).reshape({1, 1, side, side});
}

Tensor as_kernel(const Tensor& t, int64_t channels) {
  return t.reshape({-1}).slice(0, 0, 4).reshape({1, 1, 2, 2}).repeat({channels, 1, 1, 1});
}

Tensor attention(const Tensor& x) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(x.size(-1)));
  Tensor scores = torch::matmul(x, x.transpose(-2, -1)) * scale;
  const Tensor causal = torch::ones({x.size(-2), x.size(-2)}, torch::kBool).triu(1);
  scores = scores.masked_fill(causal, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::dropout(torch::softmax(scores, -1), 0.25, true), x);
}

std::vector<Operator> layer_operators() {
  return {
      {"layer_norm", 3, Effect::pure, propose_layer_norm,
       [](const Call& c) -> Results { return {torch::layer_norm(c.in[0], {c.in[0].size(-1)}, c.in[1], c.in[2])}; }},
      // Moves the running statistics once, in forward, however often backward asks for its results.
      {"batch_norm", 12, Effect::pure, propose_batch_norm,
       [](const Call& c) -> Results {
         if (c.i(0) != 0) c.in[5].add_(1);
         return {torch::batch_norm(c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], c.i(0) != 0, 0.1, 1e-5, false)};
       }},
      {"linear", 4, Effect::pure, propose_linear,
       [](const Call& c) -> Results { return {F::linear(c.in[0], c.in[1], c.in[2])}; }},
      {"mlp", 3, Effect::pure, propose_linear,
       [](const Call& c) -> Results {
         Tensor h = F::linear(c.in[0], c.in[1], c.in[2]);
         h = torch::relu_(h);
         return {torch::dropout(torch::matmul(h, c.in[1]), 0.3, true)};
       }},
      {"conv2d", 2, Effect::pure, propose_image,
       [](const Call& c) -> Results {
         return {torch::conv2d(as_image(c.in[0]), as_kernel(c.in[0], c.i(0)), {}, 1, c.i(1))};
       }},
      {"conv1d", 2, Effect::pure, propose_image,
       [](const Call& c) -> Results {
         const Tensor flat = c.in[0].reshape({1, 1, -1});
         return {torch::conv1d(flat, flat.slice(2, 0, 3).repeat({c.i(0), 1, 1}), {}, 1, c.i(1))};
       }},
      {"conv_transpose2d", 1, Effect::pure, propose_image,
       [](const Call& c) -> Results { return {torch::conv_transpose2d(as_image(c.in[0]), as_kernel(c.in[0], 1))}; }},
      {"max_pool2d", 2, Effect::pure, propose_image,
       [](const Call& c) -> Results {
         return {torch::max_pool2d(as_image(c.in[0]), {2, 2}, {1, 1})};
       }},
      {"avg_pool2d", 1, Effect::pure, propose_image,
       [](const Call& c) -> Results {
         return {torch::avg_pool2d(as_image(c.in[0]), {2, 2}, {1, 1})};
       }},
      {"upsample", 1, Effect::pure, propose_image,
       [](const Call& c) -> Results {
         return {torch::upsample_nearest2d(as_image(c.in[0]), {6, 6})};
       }},
      {"embedding", 3, Effect::pure, propose_embedding,
       [](const Call& c) -> Results { return {torch::embedding(c.in[0], c.in[1].remainder(c.in[0].size(0)))}; }},
  };
}

std::vector<Operator> block_operators() {
  return {
      {"cross_entropy", 3, Effect::pure, propose_classes,
       [](const Call& c) -> Results {
         const Tensor target = c.in[1].slice(0, 0, c.in[0].size(0)).remainder(c.in[0].size(1));
         return {torch::cross_entropy_loss(c.in[0], target)};
       }},
      {"mse", 1, Effect::pure, propose_two_numbers,
       [](const Call& c) -> Results { return {torch::mse_loss(c.in[0], c.in[1].detach())}; }},
      {"attention", 4, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s, [](const Tensor& t) { return is_real(t) && t.dim() >= 2 && t.numel() > 0; });
       },
       [](const Call& c) -> Results { return {attention(c.in[0])}; }},
      {"gru_cell", 1, Effect::pure, propose_linear,
       [](const Call& c) -> Results {
         const Tensor h = torch::tanh(F::linear(c.in[0], c.in[1], c.in[2]));
         const Tensor gate = torch::sigmoid(h * 2);
         return {gate * h + (1 - gate) * h.detach(), gate};
       }},
      {"lstm", 1, Effect::pure,
       [](Chooser& chooser, Statement& s) {
         return chooser.operand(s, [](const Tensor& t) {
           return t.scalar_type() == torch::kFloat && t.dim() == 3 && t.size(2) == t.size(1) && t.numel() > 0;
         });
       },
       [](const Call& c) -> Results {
         const Tensor x = c.in[0];
         const int64_t width = x.size(2);
         const Tensor weight = x.select(0, 0).repeat({4, 1});
         const Tensor zero = torch::zeros({1, x.size(1), width});
         auto [y, h, cell] = torch::lstm(x, {zero, zero}, {weight, weight}, false, 1, 0.0, true, false, false);
         return {y, h, cell};
       }},
  };
}

}  // namespace

std::vector<Operator> network_operators() {
  std::vector<Operator> family = layer_operators();
  const auto blocks = block_operators();
  family.insert(family.end(), blocks.begin(), blocks.end());
  return family;
}

}  // namespace retrace::random
