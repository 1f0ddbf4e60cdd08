#include "tape/storage_table.h"

#include <algorithm>

namespace retrace {
namespace {

uint32_t current_version(const c10::VariableVersion& version) {
  return version.enabled() ? version.current_version() : 0;
}

}  // namespace

bool StorageRecord::unchanged() const {
  return current_version(version) == expected &&
         std::all_of(more.begin(), more.end(), [](const auto& m) { return current_version(m.first) == m.second; });
}

void StorageRecord::expect_current() {
  expected = current_version(version);
  for (auto& [counter, count] : more) count = current_version(counter);
}

c10::Storage StorageRecord::living() const {
  if (!unchanged()) return {};
  auto alive = pin.lock();
  return alive ? c10::Storage(std::move(alive)) : c10::Storage();
}

StorageId StorageTable::find(const c10::Storage& storage) const {
  const auto entry = ids_.find(storage.unsafeGetStorageImpl());
  return entry == ids_.end() ? kNone : entry->second;
}

StorageId StorageTable::find_or_add(const at::Tensor& tensor) {
  const auto next = static_cast<StorageId>(records_.size());
  const auto [entry, added] = ids_.emplace(tensor.storage().unsafeGetStorageImpl(), next);
  if (added) {
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    records_.push_back({tensor.storage().getWeakStorageImpl(), kNone, version, current_version(version)});
  }
  return entry->second;
}

void StorageTable::add_alias(const c10::Storage& storage, const c10::VariableVersion& version, ValueId value) {
  const auto next = static_cast<StorageId>(records_.size());
  if (!ids_.emplace(storage.unsafeGetStorageImpl(), next).second) return;
  records_.push_back({storage.getWeakStorageImpl(), value, version, current_version(version)});
}

void StorageTable::add_counter(const at::Tensor& view) {
  const StorageId id = view.defined() && understood(view) ? find(view.storage()) : kNone;
  if (id == kNone) return;
  const c10::VariableVersion& counter = view.unsafeGetTensorImpl()->version_counter();
  (*this)[id].more.emplace_back(counter, current_version(counter));
}

size_t StorageTable::bytes() const {
  return records_.capacity() * sizeof(StorageRecord) + records_.size() * sizeof(c10::StorageImpl) +
         ids_.bucket_count() * (sizeof(std::pair<const c10::StorageImpl*, StorageId>) + sizeof(void*));
}

}  // namespace retrace
