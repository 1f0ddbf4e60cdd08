// What `retrace trace` runs: a model of ours, or a TorchScript file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <retrace/names.h>

#include "models/models.h"

namespace retrace::cli {

struct TracedModel {
  std::string name;
  std::vector<at::Tensor> parameters;  // that are trained
  Names names;
  std::function<at::Tensor()> loss;  // one forward pass, to a scalar
  int64_t warm_ups = 1;              // steps before times are what they will be
};

// Throws BadInput for extents that the model cannot have.
TracedModel traced_model(const std::string& name, models::Size size, const models::Extents& extents);

struct ScriptOptions {
  std::vector<std::string> inputs;  // see input_spec.h
  std::string loss = "mean";        // see script_losses()
  bool train_all = false;           // whatever the file says about gradients
};

const std::vector<std::string>& script_losses();

// Throws BadInput if the file is no TorchScript, does not take these inputs, or has nothing to train.
TracedModel traced_script(const std::string& path, const ScriptOptions& options);

// The first line of what LibTorch says, without the place in its source.
std::string first_line(const std::exception& error);

}  // namespace retrace::cli
