#include "outside_writes.h"

namespace retrace::random {

OutsideWrites::Life& OutsideWrites::life_of(const torch::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = lives_.find(storage);
  if (found != lives_.end()) return found->second;
  auto pin = c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  return lives_.emplace(storage, Life{std::move(pin), scope_, {}}).first->second;
}

void OutsideWrites::defined(const torch::Tensor& tensor) {
  if (tensor.defined() && tensor.has_storage()) life_of(tensor);
}

void OutsideWrites::read(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Life& life = life_of(tensor);
  if (scope_ != 0 && life.birth_scope != scope_) life.readers.insert(scope_);
}

void OutsideWrites::written(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  for (const int reader : life_of(tensor).readers) happened_ = happened_ || reader != scope_;
}

}  // namespace retrace::random
