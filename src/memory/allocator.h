// The counting allocator's inner side: owners are set here, by the tape and by Watch.
#pragma once

#include <c10/core/Storage.h>

#include <retrace/memory.h>

namespace retrace::memory {

// Puts the counting allocator in front of LibTorch's. Idempotent; also runs when the library is loaded.
void install();

// Moves a live block to another owner. Memory LibTorch did not allocate through us has none: nothing happens.
void set_owner(const c10::Storage& storage, Owner owner);
std::optional<Owner> owner_of(const c10::Storage& storage);

// Moves a block only if `from` owns it: weights stay weights when a tape holds them.
void change_owner(const c10::Storage& storage, Owner from, Owner to);

// While one lives, what this thread allocates belongs to `owner`.
class OwnerScope {
 public:
  explicit OwnerScope(Owner owner);
  ~OwnerScope();
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Owner before_;
};

// A storage of its own with the same bytes.
c10::Storage copy_of(const c10::Storage& storage);

// From now on `leaf` is a weight, and its .grad a gradient whenever backward has written it. Holds nothing.
void watch_leaf(const at::Tensor& leaf);

// For fault tests: the n-th allocation from now (0: the next) throws out of memory, once. Negative: none does.
void fail_allocation_after(int64_t n);

}  // namespace retrace::memory
