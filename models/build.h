// What the model files share to describe themselves as a Model. Not for users: it includes all of torch::nn.
#pragma once

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

// One per file. Each draws its weights first and its batch last, from the ambient generator.
Model make_mlp(Size size);
Model make_gpt(Size size);
Model make_resnet50(Size size);
Model make_unet(Size size);
Model make_lstm(Size size);
Model make_vit(Size size);

}  // namespace models
