#include "tape/names.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace retrace {
namespace {

using Pin = c10::weak_intrusive_ptr<c10::StorageImpl>;

const Pin& pin_of(const std::shared_ptr<const void>& storage) { return *static_cast<const Pin*>(storage.get()); }

}  // namespace

void Names::add(const at::Tensor& tensor, std::string path) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  storages_.push_back(std::make_shared<const Pin>(tensor.storage().getWeakStorageImpl()));
  paths_.push_back(std::move(path));
}

NameTable::NameTable(const NameTable* before, const Names& names) {
  const std::vector<std::string> paths = names.paths();
  for (size_t i = 0; i < paths.size(); ++i) {
    const Pin& pin = pin_of(names.storages()[i]);
    const std::string& path = paths[i];
    entries_.try_emplace(pin._unsafe_get_target(), Entry{pin, path, module_of(path)});
  }
  if (!before) return;
  for (const auto& [storage, entry] : before->entries_) {
    if (!entry.pin.expired()) entries_.try_emplace(storage, Entry{entry.pin, entry.path, module_of(entry.path)});
  }
}

// "blocks.3.mlp.fc1" of "blocks.3.mlp.fc1.weight". A module that was given no name has an empty one.
int32_t NameTable::module_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  const std::string module = dot == std::string::npos ? "" : path.substr(0, dot);
  const auto [found, is_new] = positions_.try_emplace(module, static_cast<int32_t>(modules_.size()));
  if (is_new) modules_.push_back(module);
  return found->second;
}

}  // namespace retrace
