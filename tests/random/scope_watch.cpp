#include "scope_watch.h"

namespace retrace::random {

namespace {

template <class T>
c10::weak_intrusive_ptr<T> weak(T* pointer) {
  return c10::weak_intrusive_ptr<T>(c10::intrusive_ptr<T>::reclaim_copy(pointer));
}

bool is_orphan(const torch::Tensor& t) {
  return t.is_leaf() && t.requires_grad() && t.is_view() && t._base().requires_grad();
}

}  // namespace

void ScopeWatch::enter_scope(bool may_keep) {
  if (may_keep_.empty()) scope_ = ++scopes_;
  may_keep_.push_back(may_keep);
}

void ScopeWatch::leave_scope() {
  may_keep_.pop_back();
  if (may_keep_.empty()) scope_ = 0;
}

ScopeWatch::Life& ScopeWatch::life_of(const torch::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = lives_.find(storage);
  if (found != lives_.end()) return found->second;
  return lives_.emplace(storage, Life{weak(storage), scope_, may_keep(), {}, {}}).first->second;
}

bool ScopeWatch::has_other_reader(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  const Life& life = life_of(tensor);
  return !life.readers.empty() && (life.readers.size() > 1 || *life.readers.begin() != scope_);
}

void ScopeWatch::written(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Life& life = life_of(tensor);
  const bool inside = life.birth_scope == 0 || life.birth_scope == scope_;
  outside_write_ |= has_other_reader(tensor) || (!inside && life.may_be_kept);
  life.may_be_kept |= may_keep();
}

void ScopeWatch::pointer_written(const torch::Tensor& tensor) {
  outside_write_ |= lateness_of_write(tensor) != Lateness::fresh;
  cannot_be_rebuilt(tensor);
}

void ScopeWatch::backward_ran() {
  for (auto& [storage, life] : lives_) life.may_be_kept |= scope_ != 0 && life.birth_scope == scope_;
}

Lateness ScopeWatch::lateness_of_write(const torch::Tensor& tensor) {
  const std::set<int>& users = life_of(tensor).users;
  if (users.empty()) return Lateness::fresh;
  return users.size() == 1 && *users.begin() == scope_ ? Lateness::late : Lateness::outside;
}

void ScopeWatch::defined(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Life& life = life_of(tensor);
  // Somebody else holds it: a view's base, or the node that has just saved its own result.
  const bool shared = tensor.use_count() > 1 || tensor.storage().use_count() > 1;
  if (shared && scope_ != 0) life.users.insert(scope_);
  if (is_orphan(tensor)) orphans_.emplace_back(weak(tensor.unsafeGetTensorImpl()), scope_);
}

void ScopeWatch::read(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Life& life = life_of(tensor);
  if (scope_ == 0) return;
  if (life.birth_scope != scope_) life.readers.insert(scope_);
  life.users.insert(scope_);
  for (const auto& [orphan, birth_scope] : orphans_) {
    orphan_view_ |= birth_scope != scope_ && orphan._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  }
}

}  // namespace retrace::random
