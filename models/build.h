// What the model files share to describe themselves as a Model. Not for users: it includes all of torch::nn.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <torch/torch.h>

#include "models.h"

namespace models {

// Adds a module's parameters and buffers to the model's lists.
template <class Holder>
void own(Model& model, const std::string& prefix, const Holder& module) {
  for (const auto& item : module->named_parameters()) {
    model.parameters.push_back(item.value());
    model.parameter_names.push_back(prefix + "." + item.key());
  }
  for (const auto& buffer : module->buffers()) model.buffers.push_back(buffer);
}

// Owns the module and appends it to the chain. The closure keeps it alive.
template <class Holder>
void append(Model& model, const std::string& name, Holder module) {
  own(model, name, module);
  model.layers.push_back([module](at::Tensor x) mutable { return module->forward(std::move(x)); });
}

// What was asked for, or what the size says.
inline int64_t either(int64_t asked, int64_t usual) { return asked > 0 ? asked : usual; }

// Throws std::invalid_argument.
inline void require(bool possible, const std::string& what) {
  if (!possible) throw std::invalid_argument("[make_model] " + what);
}

inline void require_heads(int64_t width, int64_t heads) {
  require(width % heads == 0, "a width of " + std::to_string(width) + " cannot be shared by " + std::to_string(heads) +
                                  " heads: it must be a multiple of them.");
}

// One per file. Each draws its weights first and its batch last, from the ambient generator.
Model make_mlp(Size size, const Extents& asked);
Model make_gpt(Size size, const Extents& asked);
Model make_resnet50(Size size, const Extents& asked);
Model make_unet(Size size, const Extents& asked);
Model make_lstm(Size size, const Extents& asked);
Model make_vit(Size size, const Extents& asked);

}  // namespace models
