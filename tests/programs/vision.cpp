// Programs on images: a U-Net, a masked autoencoder, SimCLR, a YOLO detector.
#include <cmath>

#include "parts.h"

namespace retrace::test::programs {

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

class UNetImpl : public nn::Module {
 public:
  UNetImpl() : down1_(3, 16), down2_(16, 32), bottom_(32, 64), up2_(64 + 32, 32), up1_(32 + 16, 16), head_(16, 2, 1) {
    register_module("down1", down1_);
    register_module("down2", down2_);
    register_module("bottom", bottom_);
    register_module("up2", up2_);
    register_module("up1", up1_);
    register_module("head", head_);
  }
  Tensor forward(const Tensor& images) {
    const Tensor fine = down1_(images);
    const Tensor middle = down2_(halved(fine));
    const Tensor coarse = bottom_(halved(middle));
    const Tensor up = up2_(torch::cat({doubled(coarse), middle}, 1));
    return head_(up1_(torch::cat({doubled(up), fine}, 1)));
  }

 private:
  static Tensor halved(const Tensor& x) { return F::max_pool2d(x, F::MaxPool2dFuncOptions(2)); }
  static Tensor doubled(const Tensor& x) {
    const std::vector<int64_t> size{2 * x.size(2), 2 * x.size(3)};
    return F::interpolate(x, F::InterpolateFuncOptions().size(size).mode(torch::kNearest));
  }

  ConvNormRelu down1_, down2_, bottom_, up2_, up1_;
  nn::Conv2d head_;
};
TORCH_MODULE(UNet);

// A pre-norm Transformer block with attention written out.
class BlockImpl : public nn::Module {
 public:
  BlockImpl(int64_t width, int64_t heads)
      : heads_(heads),
        norm1_(nn::LayerNormOptions({width})),
        norm2_(nn::LayerNormOptions({width})),
        queries_keys_values_(width, 3 * width),
        project_(width, width),
        widen_(width, 4 * width),
        narrow_(4 * width, width) {
    register_module("norm1", norm1_);
    register_module("norm2", norm2_);
    register_module("queries_keys_values", queries_keys_values_);
    register_module("project", project_);
    register_module("widen", widen_);
    register_module("narrow", narrow_);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = x + project_(attention(norm1_(x)));
    return y + narrow_(torch::gelu(widen_(norm2_(y))));
  }

 private:
  Tensor attention(const Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const Tensor all = queries_keys_values_(x).view({batch, length, 3, heads_, width / heads_});
    const auto parts = all.permute({2, 0, 3, 1, 4}).unbind(0);
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads_));
    const Tensor weights = torch::softmax(parts[0].matmul(parts[1].transpose(-1, -2)) * scale, -1);
    return weights.matmul(parts[2]).transpose(1, 2).reshape({batch, length, width});
  }

  int64_t heads_;
  nn::LayerNorm norm1_, norm2_;
  nn::Linear queries_keys_values_, project_, widen_, narrow_;
};
TORCH_MODULE(Block);

class MaskedAutoencoderImpl : public nn::Module {
 public:
  static constexpr int64_t kPatches = 36, kShown = 9, kPixels = 32, kWidth = 32, kHeads = 4;

  MaskedAutoencoderImpl() : embed_(kPixels, kWidth), to_decoder_(kWidth, kWidth), head_(kWidth, kPixels) {
    register_module("embed", embed_);
    register_module("to_decoder", to_decoder_);
    register_module("head", head_);
    for (int i = 0; i < 3; ++i) encoder_->push_back(Block(kWidth, kHeads));
    for (int i = 0; i < 2; ++i) decoder_->push_back(Block(kWidth, kHeads));
    register_module("encoder", encoder_);
    register_module("decoder", decoder_);
    hidden_token_ = register_parameter("hidden_token", torch::zeros({1, 1, kWidth}));
    position_ = register_buffer("position", torch::randn({1, kPatches, kWidth}));
  }

  // Patches are batch × patches × pixels. The loss is of the hidden ones alone.
  Tensor loss(const Tensor& patches) {
    const int64_t batch = patches.size(0);
    const Tensor order = torch::argsort(torch::rand({batch, kPatches}));
    const Tensor place = torch::argsort(order);  // where each patch went
    const Tensor shown = pick(embed_(patches) + position_, order.slice(1, 0, kShown));
    const Tensor code = to_decoder_(encoder_->forward(shown));
    const Tensor filled = torch::cat({code, hidden_token_.expand({batch, kPatches - kShown, kWidth})}, 1);
    const Tensor restored = head_(decoder_->forward(pick(filled, place) + position_));
    const Tensor hidden = (place >= kShown).to(torch::kFloat);
    return ((restored - patches).pow(2).mean(-1) * hidden).sum() / hidden.sum();
  }

 private:
  static Tensor pick(const Tensor& tokens, const Tensor& which) {
    return torch::gather(tokens, 1, which.unsqueeze(-1).expand({-1, -1, kWidth}));
  }

  nn::Linear embed_, to_decoder_, head_;
  nn::Sequential encoder_, decoder_;
  Tensor hidden_token_, position_;
};
TORCH_MODULE(MaskedAutoencoder);

// Anchors × (2 of position, 2 of size, 1 whether there is an object, 2 classes) at each place of a grid.
class DetectorImpl : public nn::Module {
 public:
  static constexpr int64_t kAnchors = 3, kFields = 7;

  DetectorImpl()
      : backbone_(ConvNormRelu(3, 16), ConvNormRelu(16, 32, 2), ConvNormRelu(32, 64, 2)),
        head_(64, kAnchors * kFields, 1) {
    register_module("backbone", backbone_);
    register_module("head", head_);
  }
  // batch × anchors × rows × columns × fields
  Tensor forward(const Tensor& images) {
    const Tensor grid = head_(backbone_->forward(images));
    return grid.view({grid.size(0), kAnchors, kFields, grid.size(2), grid.size(3)}).permute({0, 1, 3, 4, 2});
  }

 private:
  nn::Sequential backbone_;
  nn::Conv2d head_;
};
TORCH_MODULE(Detector);

// How close the likeliest boxes lie, as a progress bar would show it.
double crowding(const Tensor& boxes, const Tensor& object) {
  const torch::NoGradGuard no_grad;
  const Tensor best = std::get<1>(object.flatten().topk(50));
  const Tensor chosen = boxes.reshape({-1, 4}).index_select(0, best);
  return torch::cdist(chosen, chosen).mean().item<double>();
}

Tensor detection_loss(const Tensor& fields, const Tensor& is_object) {
  const Tensor position = torch::sigmoid(fields.slice(4, 0, 2));
  const Tensor size = torch::exp(fields.slice(4, 2, 4).clamp(-4, 4));
  const Tensor object = torch::sigmoid(fields.select(4, 4));
  const Tensor classes = torch::sigmoid(fields.slice(4, 5));
  crowding(torch::cat({position, size}, 4), object);
  const Tensor found = position.index({is_object});
  return F::mse_loss(found, torch::zeros_like(found)) + size.index({is_object}).log().pow(2).mean() +
         F::binary_cross_entropy(object, is_object.to(torch::kFloat)) +
         F::binary_cross_entropy(classes, torch::zeros_like(classes));
}

}  // namespace

Program unet() {
  UNet net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor images = torch::randn({4, 3, 32, 32}), labels = torch::randint(0, 2, {4, 32, 32});
    return F::cross_entropy(net(images), labels);
  });
}

Program masked_autoencoder() {
  using Shape = MaskedAutoencoderImpl;
  MaskedAutoencoder net;
  return train_with_adam(net->parameters(), [net]() mutable {
    return net->loss(torch::randn({16, Shape::kPatches, Shape::kPixels}));
  });
}

Program simclr() {
  constexpr int64_t kBatch = 16;
  nn::Sequential net(ConvNormRelu(3, 16), ConvNormRelu(16, 32, 2), ConvNormRelu(32, 64, 2), nn::AdaptiveAvgPool2d(1),
                     nn::Flatten(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 32));
  const auto augmented = [](const Tensor& images) {
    const Tensor brightness = torch::rand({kBatch, 1, 1, 1});
    return (images.flip(3) * brightness + torch::randn_like(images) * 0.1).clamp(0, 1);
  };
  return train_with_adam(net->parameters(), [net, augmented]() mutable {
    const Tensor images = torch::rand({kBatch, 3, 32, 32});
    const Tensor both = torch::cat({augmented(images), augmented(images)});
    const Tensor codes = F::normalize(net->forward(both), F::NormalizeFuncOptions().dim(1));
    const Tensor itself = torch::eye(2 * kBatch).to(torch::kBool);
    const Tensor similarity = (codes.mm(codes.t()) / 0.5).masked_fill(itself, -1e9);
    const Tensor its_other_view = torch::arange(2 * kBatch).roll(int64_t{kBatch});
    return F::cross_entropy(similarity, its_other_view);
  });
}

Program yolo() {
  Detector net;
  return train_with_adam(net->parameters(), [net]() mutable {
    const Tensor fields = net(torch::rand({4, 3, 48, 48}));
    const Tensor is_object = torch::rand({4, DetectorImpl::kAnchors, 12, 12}) > 0.9;
    return detection_loss(fields, is_object);
  });
}

}  // namespace retrace::test::programs
