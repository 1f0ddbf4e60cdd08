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

class NameTable;

// Tensors and what the program calls them. Keeps no tensor alive. A tensor whose storage is replaced later is unknown.
class Names {
 public:
  // Those without a storage are left out. Of several names for one storage, the first counts.
  void add(const at::Tensor& tensor, std::string path);

  std::vector<std::string> paths() const { return paths_; }

 private:
  friend class NameTable;
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const void>> storages_;  // parallel to paths_, weakly referred to
};

// The paths of a module's parameters and buffers and of those of all modules inside it. `module` is a torch::nn::Module, or
// holds one.
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
