#include "models.h"

#include <stdexcept>
#include <utility>

#include "build.h"
#include "seed_guard.h"

namespace models {

namespace {

using Maker = Model (*)(Size);

const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> all = {
      {"mlp", make_mlp},   {"gpt", make_gpt},   {"resnet50", make_resnet50},
      {"unet", make_unet}, {"lstm", make_lstm}, {"vit", make_vit},
  };
  return all;
}

}  // namespace

at::Tensor Model::loss() const {
  at::Tensor x = input();
  for (const Layer& layer : layers) x = layer(std::move(x));
  return tail(std::move(x));
}

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const auto& maker : makers()) list.push_back(maker.first);
    return list;
  }();
  return all;
}

Model make_model(const std::string& name, Size size, uint64_t seed) {
  for (const auto& [known, make] : makers()) {
    if (known != name) continue;
    const SeedGuard guard(seed);
    Model model = make(size);
    model.name = name;
    return model;
  }
  std::string list;
  for (const auto& known : names()) list += (list.empty() ? "" : ", ") + known;
  throw std::invalid_argument("[make_model] no model is called '" + name + "'; the models are " + list + ".");
}

}  // namespace models
