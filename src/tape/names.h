// What the program calls its weights, by storage.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>
#include <unordered_map>
#include <vector>

#include <retrace/names.h>

namespace retrace {

// Does not change once a step uses it.
class NameTable {
 public:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> pin;  // so that its address is never mistaken for its successor's
    std::string path;
    int32_t module;  // its position among the modules
  };

  // All that `before` (which may be null) knows and that still lives, and `names`, which win.
  NameTable(const NameTable* before, const Names& names);

  const Entry* find(const c10::StorageImpl* storage) const {
    const auto found = entries_.find(storage);
    return found == entries_.end() ? nullptr : &found->second;
  }
  const std::string& module(int32_t position) const { return modules_[static_cast<size_t>(position)]; }

 private:
  int32_t module_of(const std::string& path);

  std::unordered_map<const c10::StorageImpl*, Entry> entries_;
  std::vector<std::string> modules_;
  std::unordered_map<std::string, int32_t> positions_;  // of modules
};

}  // namespace retrace
