// A bottleneck ResNet on a data set that the batch size does not divide: the last batch of each epoch is shorter.
// Image, output and loss are declared outside of the loop and live on to the next step.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

#include "options.h"

namespace nn = torch::nn;

nn::Sequential conv_norm(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false)),
                        nn::BatchNorm2d(out));
}

struct BottleneckImpl : nn::Module {
  BottleneckImpl(int64_t in, int64_t width, int64_t stride)
      : reduce(register_module("reduce", conv_norm(in, width, 1))),
        conv(register_module("conv", conv_norm(width, width, 3, stride))),
        expand(register_module("expand", conv_norm(width, 4 * width, 1))) {
    if (stride != 1 || in != 4 * width) shortcut = register_module("shortcut", conv_norm(in, 4 * width, 1, stride));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = reduce->forward(x).relu_();
    y = conv->forward(y).relu_();
    y = expand->forward(y);
    y += shortcut ? shortcut->forward(x) : x;
    return y.relu_();
  }

  nn::Sequential reduce, conv, expand, shortcut{nullptr};
};
TORCH_MODULE(Bottleneck);

nn::Sequential make_resnet(int64_t width, int64_t blocks, int64_t classes) {
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, width, 3).padding(1).bias(false)), nn::BatchNorm2d(width),
                     nn::ReLU(nn::ReLUOptions(true)));
  int64_t in = width;
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (int64_t block = 0; block < blocks; ++block) {
      net->push_back(Bottleneck(in, width << stage, stage > 0 && block == 0 ? 2 : 1));
      in = 4 * (width << stage);
    }
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(in, classes));
  return net;
}

int main(int argc, char** argv) {
  const examples::Options options(argc, argv);
  torch::manual_seed(5);
  const int64_t images = options.small ? 10 : 70, batch = options.small ? 4 : 20, side = options.small ? 16 : 32;
  auto data = torch::randn({images, 3, side, side});
  auto labels = torch::randint(10, {images}, torch::kLong);

  auto net = make_resnet(options.small ? 4 : 12, options.small ? 1 : 4, 10);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  examples::Session session(options);  // Retrace
  torch::Tensor image, label, output, loss;
  int64_t start = 0;
  for (int i = 1; i <= options.steps; ++i) {
    auto step = session.step();  // Retrace
    const int64_t end = std::min(start + batch, images);
    image = data.slice(0, start, end);
    label = labels.slice(0, start, end);
    output = net->forward(image);
    loss = nn::functional::cross_entropy(output, label);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %2d, %2d images: loss %.9g\n", i, static_cast<int>(end - start), loss.item<double>());
    start = end == images ? 0 : end;
  }
}
