// U-Net: a contracting path, an expanding path, and a skip connection between each pair of levels.
//
// As a chain it has a twist: skips travel beside it, on a stack that the way down fills and the way up empties. A
// checkpoint that re-ran the function would push them twice.
#include <memory>

#include "build.h"

namespace models {

namespace {

torch::nn::Sequential double_conv(int64_t in, int64_t out) {
  const auto conv = [](int64_t from, int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
  };
  const auto relu = [] { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); };
  return torch::nn::Sequential(conv(in, out), torch::nn::BatchNorm2d(out), relu(),  //
                               conv(out, out), torch::nn::BatchNorm2d(out), relu());
}

using Skips = std::shared_ptr<std::vector<at::Tensor>>;

void append_down(Model& model, const Skips& skips, const std::string& name, int64_t in, int64_t out) {
  auto convs = double_conv(in, out);
  own(model, name, convs);
  model.layers.push_back([skips, convs](const at::Tensor& x) mutable {
    skips->push_back(convs->forward(x));
    return torch::max_pool2d(skips->back(), 2);
  });
}

void append_up(Model& model, const Skips& skips, const std::string& name, int64_t in, int64_t out) {
  torch::nn::ConvTranspose2d grow(torch::nn::ConvTranspose2dOptions(in, out, 2).stride(2));
  auto convs = double_conv(2 * out, out);
  own(model, name + ".grow", grow);
  own(model, name, convs);
  model.layers.push_back([skips, grow, convs](const at::Tensor& x) mutable {
    const at::Tensor skip = skips->back();
    skips->pop_back();
    return convs->forward(torch::cat({skip, grow(x)}, 1));
  });
}

struct Shape {
  int64_t batch, side, width, levels;
};

}  // namespace

Model make_unet(Size size, const Extents& asked) {
  Shape shape = size == Size::bench ? Shape{4, 128, 32, 4} : Shape{2, 16, 4, 2};
  shape.batch = either(asked.batch, shape.batch);
  shape.side = either(asked.side, shape.side);
  shape.width = either(asked.width, shape.width);
  shape.levels = either(asked.layers, shape.levels);
  require(shape.levels < 20 && shape.side % (int64_t{1} << shape.levels) == 0,
          "images of side " + std::to_string(shape.side) + " cannot be halved at " + std::to_string(shape.levels) +
              " levels: it must be a multiple of 2 to that power.");
  const auto skips = std::make_shared<std::vector<at::Tensor>>();
  Model model;
  int64_t channels = 3;
  for (int64_t level = 0; level < shape.levels; ++level) {
    const int64_t out = shape.width << level;
    append_down(model, skips, "down" + std::to_string(level), channels, out);
    channels = out;
  }
  append(model, "bottom", double_conv(channels, 2 * channels));
  for (int64_t level = shape.levels - 1; level >= 0; --level) {
    const int64_t out = shape.width << level;
    append_up(model, skips, "up" + std::to_string(level), 2 * out, out);
  }
  append(model, "head", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.width, 1, 1)));
  const at::Tensor images = torch::randn({shape.batch, 3, shape.side, shape.side});
  const at::Tensor masks = (torch::rand({shape.batch, 1, shape.side, shape.side}) > 0.5).to(torch::kFloat);
  model.input = [images, skips] {
    skips->clear();  // what a pass that threw half-way left behind
    return images;
  };
  model.criterion = [masks](const at::Tensor& y) { return torch::binary_cross_entropy_with_logits(y, masks); };
  return model;
}

}  // namespace models
