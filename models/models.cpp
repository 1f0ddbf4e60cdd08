#include "models.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "build.h"
#include "seed_guard.h"

namespace models {

namespace {

struct Entry {
  std::string name;
  Model (*make)(Size, const Extents&);
  std::vector<int64_t Extents::*> extents;  // that it has
};

const std::vector<Entry>& entries() {
  using E = Extents;
  static const std::vector<Entry> all = {
      {"mlp", make_mlp, {&E::batch, &E::width}},
      {"gpt", make_gpt, {&E::batch, &E::length, &E::layers, &E::width, &E::heads}},
      {"resnet50", make_resnet50, {&E::batch, &E::width, &E::side}},
      {"unet", make_unet, {&E::batch, &E::layers, &E::width, &E::side}},
      {"lstm", make_lstm, {&E::batch, &E::length, &E::layers, &E::width}},
      {"vit", make_vit, {&E::batch, &E::layers, &E::width, &E::heads, &E::side}},
  };
  return all;
}

void check_extents(const Entry& entry, const Extents& asked) {
  using E = Extents;
  static const std::vector<std::pair<const char*, int64_t E::*>> all = {
      {"batch", &E::batch}, {"length", &E::length}, {"layers", &E::layers},
      {"width", &E::width}, {"heads", &E::heads},   {"side", &E::side},
  };
  for (const auto& [name, member] : all) {
    const auto& has = entry.extents;
    require(asked.*member == 0 || std::find(has.begin(), has.end(), member) != has.end(),
            entry.name + " has no " + name + " to choose.");
  }
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
    for (const Entry& entry : entries()) list.push_back(entry.name);
    return list;
  }();
  return all;
}

Model make_model(const std::string& name, Size size, uint64_t seed) { return make_model(name, size, Extents{}, seed); }

Model make_model(const std::string& name, Size size, const Extents& extents, uint64_t seed) {
  for (const Entry& entry : entries()) {
    if (entry.name != name) continue;
    check_extents(entry, extents);
    const SeedGuard guard(seed);
    Model model = entry.make(size, extents);
    model.name = name;
    return model;
  }
  std::string list;
  for (const auto& known : names()) list += (list.empty() ? "" : ", ") + known;
  throw std::invalid_argument("[make_model] no model is called '" + name + "'; the models are " + list + ".");
}

}  // namespace models
