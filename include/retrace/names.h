// Names make a tape readable: weights by their path, operators and activations by the module they belong to.
//
//   session.name(*model);                                             // "blocks.3.mlp.fc1.weight"
//   session.name(retrace::names(*discriminator, "discriminator"));    // "discriminator.0.weight"
#pragma once

#include <retrace/cxx20.h>

#include <memory>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace retrace {

// Tensors and what the program calls them. Keeps no tensor alive. A tensor that gets another storage loses its name.
class Names {
 public:
  // A tensor without a storage is left out. Of several names for one storage, the first counts.
  void add(const at::Tensor& tensor, std::string path);

  std::vector<std::string> paths() const { return paths_; }
  // For sessions: parallel to paths(), each refers weakly to a tensor's storage.
  const std::vector<std::shared_ptr<const void>>& storages() const { return storages_; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const void>> storages_;
};

// The paths of the parameters and buffers of a module and of all modules inside it. `module` is a torch::nn::Module, or
// a holder of one.
template <class Module>
Names names(const Module& module, const std::string& prefix = "") {
  if constexpr (requires { module.named_parameters(); }) {
    const std::string start = prefix.empty() ? prefix : prefix + ".";
    Names all;
    for (const auto& item : module.named_parameters()) all.add(item.value(), start + item.key());
    for (const auto& item : module.named_buffers()) all.add(item.value(), start + item.key());
    return all;
  } else {
    return names(*module, prefix);
  }
}

}  // namespace retrace
