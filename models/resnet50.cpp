// ResNet-50 as torchvision has it: bottlenecks with the stride on the 3×3, in-place ReLU, He initialisation.
#include "build.h"

namespace models {

namespace {

torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(layer->weight, 0.0, torch::kFanOut, torch::kReLU);
  return layer;
}

torch::nn::ReLU relu() { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); }

class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 4;

  BottleneckImpl(int64_t in, int64_t width, int64_t stride)
      : conv1_(conv(in, width, 1, 1)),
        norm1_(width),
        conv2_(conv(width, width, 3, stride)),
        norm2_(width),
        conv3_(conv(width, width * kExpansion, 1, 1)),
        norm3_(width * kExpansion),
        relu_(relu()) {
    register_module("conv1", conv1_);
    register_module("bn1", norm1_);
    register_module("conv2", conv2_);
    register_module("bn2", norm2_);
    register_module("conv3", conv3_);
    register_module("bn3", norm3_);
    register_module("relu", relu_);
    if (stride != 1 || in != width * kExpansion) {
      downsample_ =
          torch::nn::Sequential(conv(in, width * kExpansion, 1, stride), torch::nn::BatchNorm2d(width * kExpansion));
      register_module("downsample", downsample_);
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor out = relu_(norm1_(conv1_(x)));
    out = relu_(norm2_(conv2_(out)));
    out = norm3_(conv3_(out));
    out += downsample_.is_empty() ? x : downsample_->forward(x);
    return relu_(out);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d norm3_;
  torch::nn::ReLU relu_;
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(Bottleneck);

struct Shape {
  int64_t batch, side, width, classes;
  std::vector<int64_t> blocks;  // per stage
};

// Appends the stages and returns the channels of the last one.
int64_t append_stages(Model& model, const Shape& shape) {
  int64_t in = shape.width, width = shape.width;
  for (size_t stage = 0; stage < shape.blocks.size(); ++stage, width *= 2) {
    for (int64_t block = 0; block < shape.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      append(model, "layer" + std::to_string(stage + 1) + "." + std::to_string(block), Bottleneck(in, width, stride));
      in = width * BottleneckImpl::kExpansion;
    }
  }
  return in;
}

}  // namespace

// The chain is the stem and the blocks, as the peers' benchmark cuts it; pooling and classifier are the head.
Model make_resnet50(Size size, const Extents& asked) {
  Shape shape = size == Size::bench ? Shape{8, 128, 64, 1000, {3, 4, 6, 3}} : Shape{4, 32, 4, 10, {1, 2, 1}};
  shape.batch = either(asked.batch, shape.batch);
  shape.side = either(asked.side, shape.side);
  shape.width = either(asked.width, shape.width);
  require(
      shape.batch > 1 || shape.side > 32,
      "batch norm cannot train on one image that the last stage has one pixel of: use a batch of 2 or more, or images "
      "of a side above 32.");
  Model model;
  append(model, "stem",
         torch::nn::Sequential(conv(3, shape.width, 7, 2), torch::nn::BatchNorm2d(shape.width), relu(),
                               torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1))));
  const int64_t channels = append_stages(model, shape);
  torch::nn::Linear fc(channels, shape.classes);
  own(model, "fc", fc);
  const at::Tensor images = torch::randn({shape.batch, 3, shape.side, shape.side});
  const at::Tensor labels = torch::randint(shape.classes, {shape.batch}, torch::kLong);
  model.input = [images] { return images; };
  model.head = [fc](const at::Tensor& x) mutable { return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1)); };
  model.criterion = [labels](const at::Tensor& y) { return torch::nn::functional::cross_entropy(y, labels); };
  return model;
}

}  // namespace models
