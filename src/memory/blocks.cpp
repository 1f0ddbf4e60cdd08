#include "memory/blocks.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "memory/spin_lock.h"

namespace retrace::memory {
namespace {

constexpr size_t kLarge = size_t{64} << 10;
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMayWait = false;  // so that it sees who uses what is gone
#else
constexpr bool kMayWait = true;
#endif

// malloc aligns to 16 bytes, so there is space in front for the address it gave.
void* align(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory) + kBlockAlignment;
  void* const block = reinterpret_cast<void*>(address & ~uintptr_t{kBlockAlignment - 1});
  static_cast<void**>(block)[-1] = memory;
  return block;
}

void give_back(void* block) { std::free(static_cast<void**>(block)[-1]); }

// Large blocks that nobody has. With those that somebody has they are hardly more bytes than somebody had at once, in
// this period or the one before. A period ends when kTurns times as many have been asked for: some steps of a training.
// What has waited for a whole period is given back.
class Waiting {
 public:
  // Null if none of this size waits: then there is space to make one.
  void* take(size_t bytes) {
    std::unique_lock lock(mutex_);
    const auto same_size = latest_.find(bytes);
    Block* const block = same_size == latest_.end() ? nullptr : same_size->second;
    if (block) remove(block);
    Block* const excess = block ? count(bytes) : shrink_to(with_spare(std::max(most_out(), out_ + bytes)) - bytes);
    lock.unlock();
    give_back_all(excess);
    return block;
  }

  void was_made(size_t bytes) {
    std::unique_lock lock(mutex_);
    Block* const excess = count(bytes);
    lock.unlock();
    give_back_all(excess);
  }

  void add(void* memory, size_t bytes) {
    std::unique_lock lock(mutex_);
    out_ -= bytes;
    if (kMayWait) push(new (memory) Block{.bytes = bytes, .period = period_});
    Block* const excess = shrink_to(with_spare(most_out()));
    lock.unlock();
    give_back_all(excess);
    if (!kMayWait) give_back(memory);
  }

  void clear() {
    std::unique_lock lock(mutex_);
    Block* const all = shrink_to(0);
    lock.unlock();
    give_back_all(all);
  }

 private:
  static constexpr size_t kTurns = 16;
  static constexpr size_t kMostSpare = size_t{32} << 20;

  // At the beginning of the memory that waits.
  struct Block {
    size_t bytes;
    uint64_t period;
    Block* older = nullptr;
    Block* newer = nullptr;
    Block* older_of_size = nullptr;
    Block* newer_of_size = nullptr;
  };

  Block* count(size_t bytes) {
    out_ += bytes;
    most_out_ = std::max(most_out_, out_);
    asked_for_ += bytes;
    return asked_for_ > kTurns * most_out() ? end_period() : nullptr;
  }

  size_t most_out() const { return std::max(most_out_, most_out_before_); }
  // Without some to spare all that wait would have to go at each peak.
  static size_t with_spare(size_t bytes) { return bytes + std::min(bytes / 8, kMostSpare); }

  void push(Block* block) {
    block->older = newest_;
    (newest_ ? newest_->newer : oldest_) = block;
    newest_ = block;
    Block*& latest = latest_[block->bytes];
    block->older_of_size = latest;
    if (latest) latest->newer_of_size = block;
    latest = block;
    waiting_ += block->bytes;
  }

  void remove(Block* block) {
    (block->older ? block->older->newer : oldest_) = block->newer;
    (block->newer ? block->newer->older : newest_) = block->older;
    if (block->older_of_size) block->older_of_size->newer_of_size = block->newer_of_size;
    if (block->newer_of_size) {
      block->newer_of_size->older_of_size = block->older_of_size;
    } else if (block->older_of_size) {
      latest_[block->bytes] = block->older_of_size;
    } else {
      latest_.erase(block->bytes);
    }
    waiting_ -= block->bytes;
  }

  // What is to be given back, linked by `older`: the oldest, as long as `is_excess`.
  template <class IsExcess>
  Block* remove_while(IsExcess is_excess) {
    Block* removed = nullptr;
    while (oldest_ && is_excess(*oldest_)) {
      Block* const block = oldest_;
      remove(block);
      block->older = std::exchange(removed, block);
    }
    return removed;
  }

  Block* shrink_to(size_t bytes) {
    return remove_while([&](const Block&) { return out_ + waiting_ > bytes; });
  }

  Block* end_period() {
    ++period_;
    asked_for_ = 0;
    most_out_before_ = std::exchange(most_out_, out_);
    return remove_while(
        [&](const Block& block) { return block.period + 1 < period_ || out_ + waiting_ > with_spare(most_out()); });
  }

  static void give_back_all(Block* block) {
    while (block) memory::give_back(std::exchange(block, block->older));
  }

  SpinLock mutex_;
  std::unordered_map<size_t, Block*> latest_;  // by bytes
  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  size_t waiting_ = 0;  // bytes
  size_t out_ = 0;      // bytes that somebody has
  size_t most_out_ = 0;
  size_t most_out_before_ = 0;  // in the period before
  size_t asked_for_ = 0;        // in this period
  uint64_t period_ = 0;
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
  if (bytes >= kLarge) waiting().was_made(bytes);
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
