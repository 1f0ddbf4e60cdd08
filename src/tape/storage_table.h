// The storages a tape has seen, and whether anybody wrote to them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/flat_hash_map.h>

#include <utility>
#include <vector>

#include "tape/op.h"

namespace retrace {

struct StorageRecord {
  c10::weak_intrusive_ptr<c10::StorageImpl> pin;  // so that its address is never mistaken for its successor's
  ValueId current = kNone;
  c10::VariableVersion version;
  uint32_t expected = 0;  // what `version` says as long as nobody wrote unseen
  // Further counters of the same storage: of tensors that count their own writes (_unsafe_view, unsafe_split). With
  // what is expected of each.
  std::vector<std::pair<c10::VariableVersion, uint32_t>> more = {};

  bool unchanged() const;
  void expect_current();
  bool is(const c10::Storage& storage) const { return storage.unsafeGetStorageImpl() == pin._unsafe_get_target(); }
  bool is_living() const { return pin.use_count() > 0 && unchanged(); }
  c10::Storage living() const;  // null if nobody has it, or somebody wrote to it unseen
};

class StorageTable {
 public:
  StorageId find(const c10::Storage& storage) const;  // none if not seen before
  StorageId find_or_add(const at::Tensor& tensor);
  // A storage that replay made for `value` is that value, unless it is known as something else.
  void add_alias(const c10::Storage& storage, const c10::VariableVersion& version, ValueId value);
  // A view that the schema does not admit to (_unsafe_view, unsafe_split) has a version counter of its own: writes
  // through it do not show in the others.
  void add_counter(const at::Tensor& view);
  void reserve(size_t storages) {
    records_.reserve(storages);
    ids_.reserve(storages);
  }
  void forget_addresses() { ids_.clear(); }  // nobody will ask what a tensor is any more

  StorageRecord& operator[](StorageId id) { return records_[static_cast<size_t>(id)]; }
  const StorageRecord& operator[](StorageId id) const { return records_[static_cast<size_t>(id)]; }
  size_t bytes() const;  // of the table itself and of what its pins keep

 private:
  std::vector<StorageRecord> records_;
  ska::flat_hash_map<const c10::StorageImpl*, StorageId> ids_;
};

}  // namespace retrace
