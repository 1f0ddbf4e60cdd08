// The models that the demo, the tests and the benchmarks share: plain LibTorch modules that know nothing of Retrace.
//
//   auto model = models::make_model("unet", models::Size::test);
//   model.loss().backward();
//
// Every model comes with its own fixed batch and is a chain: loss = criterion(head(layers(input()))). Whatever wants to
// run the chain in another way (checkpointed in segments, say) walks `layers` itself; the model need not know.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace models {

// bench: a step of about one to three seconds on one core. test: the same architecture in miniature, milliseconds.
enum class Size { bench, test };

// What a model is to have instead of what its Size says; 0: as that says.
struct Extents {
  int64_t batch = 0;
  int64_t length = 0;  // of a sequence
  int64_t layers = 0;  // blocks of a transformer, levels of a U-Net
  int64_t width = 0;
  int64_t heads = 0;
  int64_t side = 0;  // of an image
};

using Layer = std::function<at::Tensor(at::Tensor)>;

// Copies share weights, buffers and batch. One pass at a time.
struct Model {
  std::string name;
  std::vector<at::Tensor> parameters;
  std::vector<std::string> parameter_names;  // one per parameter
  std::vector<at::Tensor> buffers;
  std::function<at::Tensor()> input;  // begins a pass: what the first layer takes
  std::vector<Layer> layers;
  Layer head;       // from the last layer's result to the model's output; empty where that is it
  Layer criterion;  // from the output to the scalar loss

  at::Tensor output(at::Tensor x) const { return head ? head(std::move(x)) : x; }
  at::Tensor tail(at::Tensor x) const { return criterion(output(std::move(x))); }

  // One forward pass, in train mode, on the fixed batch.
  at::Tensor loss() const;
};

// "mlp", "gpt", "resnet50", "unet", "lstm", "vit".
const std::vector<std::string>& names();

// The same name, size and seed give the same weights and batch, bit for bit; the ambient generator is left as it was.
// Throws std::invalid_argument for a name that is not in names().
Model make_model(const std::string& name, Size size, uint64_t seed = 0);

// The same with extents of its own. Throws std::invalid_argument for one that the model does not have, or that it
// cannot have together with the others.
Model make_model(const std::string& name, Size size, const Extents& extents, uint64_t seed = 0);

}  // namespace models
