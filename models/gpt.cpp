#include "gpt.h"

#include <cmath>
#include <limits>
#include <memory>

#include "build.h"
#include "seed_guard.h"

namespace models {

namespace {

// Operator for operator the block of the peers' benchmark (torch_peers.py), so that times and bytes compare.
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GptShape& shape)
      : shape_(shape),
        norm1_(torch::nn::LayerNormOptions({shape.width})),
        qkv_(shape.width, 3 * shape.width),
        out_(shape.width, shape.width),
        norm2_(torch::nn::LayerNormOptions({shape.width})),
        up_(shape.width, 4 * shape.width),
        down_(4 * shape.width, shape.width),
        dropout_(shape.dropout) {
    register_module("norm1", norm1_);
    register_module("qkv", qkv_);
    register_module("out", out_);
    register_module("norm2", norm2_);
    register_module("up", up_);
    register_module("down", down_);
    register_module("dropout", dropout_);
    mask_ = register_buffer("mask", torch::triu(torch::ones({shape.length, shape.length}, torch::kBool), 1));
  }

  at::Tensor forward(at::Tensor x) {
    x = x + dropout_(out_(attention(norm1_(x))));
    return x + dropout_(down_(torch::gelu(up_(norm2_(x)))));
  }

 private:
  at::Tensor attention(const at::Tensor& h) {
    const auto& [batch, length, width, heads, blocks, p] = shape_;
    const int64_t head_width = width / heads;
    const auto parts = qkv_(h).split(width, 2);
    const auto split_heads = [&](const at::Tensor& t) {
      return t.view({batch, length, heads, head_width}).transpose(1, 2);
    };
    const at::Tensor q = split_heads(parts[0]), k = split_heads(parts[1]), v = split_heads(parts[2]);
    at::Tensor a = torch::matmul(q, k.transpose(-2, -1)) * (1 / std::sqrt(static_cast<double>(head_width)));
    a = a.masked_fill(mask_, -std::numeric_limits<double>::infinity());
    a = torch::softmax(a, -1);
    a = dropout_(a);
    return torch::matmul(a, v).transpose(1, 2).reshape({batch, length, width});
  }

  GptShape shape_;
  torch::nn::LayerNorm norm1_;
  torch::nn::Linear qkv_, out_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Linear up_, down_;
  torch::nn::Dropout dropout_;
  at::Tensor mask_;
};
TORCH_MODULE(Block);

class EmbeddingImpl : public torch::nn::Module {
 public:
  EmbeddingImpl(const GptShape& shape, int64_t vocabulary)
      : token_(vocabulary, shape.width), place_(shape.length, shape.width), dropout_(shape.dropout) {
    register_module("token", token_);
    register_module("place", place_);
    register_module("dropout", dropout_);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return dropout_(token_(tokens) + place_(torch::arange(tokens.size(1), torch::kLong)));
  }

 private:
  torch::nn::Embedding token_, place_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(Embedding);

void append_blocks(Model& model, const GptShape& shape) {
  for (int64_t i = 0; i < shape.blocks; ++i) append(model, "block" + std::to_string(i), Block(shape));
}

}  // namespace

// The bare blocks on random input, as the peers run them: the input is a leaf of each step's graph.
Model make_gpt(Size size, const Extents& asked) {
  const GptShape usual =
      size == Size::bench ? GptShape{} : GptShape{.batch = 2, .length = 8, .width = 16, .heads = 2, .blocks = 3};
  const GptShape shape{.batch = either(asked.batch, usual.batch),
                       .length = either(asked.length, usual.length),
                       .width = either(asked.width, usual.width),
                       .heads = either(asked.heads, usual.heads),
                       .blocks = either(asked.layers, usual.blocks)};
  require_heads(shape.width, shape.heads);
  Model model;
  append_blocks(model, shape);
  const at::Tensor x0 = torch::randn({shape.batch, shape.length, shape.width});
  model.input = [x0] { return x0.clone().requires_grad_(); };
  model.criterion = [](const at::Tensor& y) { return y.square().mean(); };
  return model;
}

TextGpt make_text_gpt(const GptShape& shape, int64_t vocabulary, uint64_t seed) {
  const SeedGuard guard(seed);
  struct Batch {
    at::Tensor tokens, targets;
  };
  const auto batch = std::make_shared<Batch>();
  TextGpt gpt;
  append(gpt.model, "embedding", Embedding(shape, vocabulary));
  append_blocks(gpt.model, shape);
  torch::nn::Sequential head(torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})),
                             torch::nn::Linear(shape.width, vocabulary));
  own(gpt.model, "head", head);
  gpt.model.name = "gpt";
  gpt.model.input = [batch] { return batch->tokens; };
  gpt.model.head = [head](const at::Tensor& x) mutable { return head->forward(x); };
  gpt.model.criterion = [batch](const at::Tensor& y) {
    return torch::nn::functional::cross_entropy(y.flatten(0, 1), batch->targets.flatten());
  };
  gpt.feed = [batch](at::Tensor tokens, at::Tensor targets) { *batch = {std::move(tokens), std::move(targets)}; };
  return gpt;
}

}  // namespace models
