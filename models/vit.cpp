// Vision Transformer, ViT-S/16: patches by a strided convolution, a class token, pre-norm blocks with LibTorch's own
// multi-head attention.
#include <tuple>

#include "build.h"

namespace models {

namespace {

struct Shape {
  int64_t batch, side, patch, width, heads, blocks, classes;
  int64_t patches() const { return (side / patch) * (side / patch); }
};

class PatchesImpl : public torch::nn::Module {
 public:
  explicit PatchesImpl(const Shape& shape)
      : project_(torch::nn::Conv2dOptions(3, shape.width, shape.patch).stride(shape.patch)), dropout_(0.1) {
    register_module("project", project_);
    register_module("dropout", dropout_);
    class_token_ = register_parameter("class_token", torch::zeros({1, 1, shape.width}));
    position_ = register_parameter("position", 0.02 * torch::randn({1, shape.patches() + 1, shape.width}));
  }
  // Images to tokens × batch × width, the order MultiheadAttention takes.
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor patches = project_(images).flatten(2).transpose(1, 2);
    const at::Tensor tokens = torch::cat({class_token_.expand({patches.size(0), -1, -1}), patches}, 1);
    return dropout_(tokens + position_).transpose(0, 1);
  }

 private:
  torch::nn::Conv2d project_;
  torch::nn::Dropout dropout_;
  at::Tensor class_token_, position_;
};
TORCH_MODULE(Patches);

class EncoderImpl : public torch::nn::Module {
 public:
  explicit EncoderImpl(const Shape& shape)
      : norm1_(torch::nn::LayerNormOptions({shape.width})),
        attention_(torch::nn::MultiheadAttentionOptions(shape.width, shape.heads).dropout(0.1)),
        norm2_(torch::nn::LayerNormOptions({shape.width})),
        mlp_(torch::nn::Linear(shape.width, 4 * shape.width), torch::nn::GELU(), torch::nn::Dropout(0.1),
             torch::nn::Linear(4 * shape.width, shape.width), torch::nn::Dropout(0.1)) {
    register_module("norm1", norm1_);
    register_module("attention", attention_);
    register_module("norm2", norm2_);
    register_module("mlp", mlp_);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = norm1_(x);
    const at::Tensor y =
        x + std::get<0>(attention_(h, h, h, /*key_padding_mask=*/at::Tensor(), /*need_weights=*/false));
    return y + mlp_->forward(norm2_(y));
  }

 private:
  torch::nn::LayerNorm norm1_;
  torch::nn::MultiheadAttention attention_;
  torch::nn::LayerNorm norm2_;
  torch::nn::Sequential mlp_;
};
TORCH_MODULE(Encoder);

}  // namespace

Model make_vit(Size size, const Extents& asked) {
  Shape shape = size == Size::bench ? Shape{2, 224, 16, 384, 6, 12, 1000} : Shape{2, 16, 8, 16, 2, 3, 10};
  shape.batch = either(asked.batch, shape.batch);
  shape.side = either(asked.side, shape.side);
  shape.width = either(asked.width, shape.width);
  shape.heads = either(asked.heads, shape.heads);
  shape.blocks = either(asked.layers, shape.blocks);
  require_heads(shape.width, shape.heads);
  require(shape.side % shape.patch == 0, "images of side " + std::to_string(shape.side) +
                                             " cannot be cut into patches of " + std::to_string(shape.patch) +
                                             ": it must be a multiple of that.");
  Model model;
  append(model, "patches", Patches(shape));
  for (int64_t i = 0; i < shape.blocks; ++i) append(model, "encoder" + std::to_string(i), Encoder(shape));
  torch::nn::Sequential head(torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})),
                             torch::nn::Linear(shape.width, shape.classes));
  own(model, "head", head);
  const at::Tensor images = torch::randn({shape.batch, 3, shape.side, shape.side});
  const at::Tensor labels = torch::randint(shape.classes, {shape.batch}, torch::kLong);
  model.input = [images] { return images; };
  model.head = [head](const at::Tensor& x) mutable { return head->forward(x.select(0, 0)); };
  model.criterion = [labels](const at::Tensor& y) { return torch::nn::functional::cross_entropy(y, labels); };
  return model;
}

}  // namespace models
