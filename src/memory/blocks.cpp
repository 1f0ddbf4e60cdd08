#include "memory/blocks.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/spin_lock.h"

namespace retrace::memory {
namespace {

constexpr size_t kLarge = size_t{64} << 10;
constexpr size_t kMostWaiting = 32;  // blocks
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMostWaitingBytes = 0;  // so that it sees who uses what is gone
#else
constexpr size_t kMostWaitingBytes = size_t{32} << 20;
#endif

// malloc aligns to 16 bytes, so there is space in front for the address it gave.
void* align(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory) + kBlockAlignment;
  void* const block = reinterpret_cast<void*>(address & ~uintptr_t{kBlockAlignment - 1});
  static_cast<void**>(block)[-1] = memory;
  return block;
}

void give_back(void* block) { std::free(static_cast<void**>(block)[-1]); }

// Large blocks that nobody has, the latest last.
class Waiting {
 public:
  Waiting() { blocks_.reserve(kMostWaiting + 1); }

  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& b) { return b.bytes == bytes; });
    if (fits == blocks_.rend()) return nullptr;
    void* const block = fits->block;
    bytes_ -= bytes;
    blocks_.erase(std::next(fits).base());
    return block;
  }

  void add(void* block, size_t bytes) {
    if (bytes > kMostWaitingBytes) return give_back(block);
    std::vector<Block> leave;
    {
      const std::lock_guard lock(mutex_);
      blocks_.push_back({block, bytes});
      bytes_ += bytes;
      size_t end = 0;
      for (; bytes_ > kMostWaitingBytes || blocks_.size() - end > kMostWaiting; ++end) bytes_ -= blocks_[end].bytes;
      leave.assign(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(end));
      blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(end));
    }
    for (const Block& b : leave) give_back(b.block);
  }

  void clear() {
    std::vector<Block> all;
    {
      const std::lock_guard lock(mutex_);
      all = std::exchange(blocks_, {});
      bytes_ = 0;
    }
    for (const Block& b : all) give_back(b.block);
  }

 private:
  struct Block {
    void* block;
    size_t bytes;
  };
  SpinLock mutex_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
};

// Never destroyed, because blocks are freed by static destructors too.
Waiting& waiting() {
  static auto* const instance = new Waiting;
  return *instance;
}

// As LibTorch's own allocator does, in its words.
[[noreturn]] void refuse(size_t bytes) {
  c10::free_cpu(c10::alloc_cpu(bytes));
  TORCH_CHECK(false, "[retrace::memory] not enough memory: you tried to allocate ", bytes, " bytes.");
}

void* find_block(size_t bytes) {
  if (bytes >= kLarge) {
    if (void* const block = waiting().take(bytes)) return block;
  }
  void* memory = std::malloc(bytes + kBlockAlignment);
  if (!memory) {
    waiting().clear();
    memory = std::malloc(bytes + kBlockAlignment);
  }
  if (!memory) refuse(bytes);
  return align(memory);
}

}  // namespace

// LibTorch's profiler is told, as LibTorch's own allocator would.
void* allocate_block(size_t bytes) {
  void* const block = find_block(bytes);
  c10::profiledCPUMemoryReporter().New(block, bytes);
  return block;
}

void deallocate_block(void* block, size_t bytes) {
  c10::profiledCPUMemoryReporter().Delete(block);
  if (bytes >= kLarge) return waiting().add(block, bytes);
  give_back(block);
}

}  // namespace retrace::memory
