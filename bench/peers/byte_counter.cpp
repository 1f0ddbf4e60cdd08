// Counts the bytes of live CPU tensors in a Python process, as retrace::memory does in ours: what was asked for, not
// what malloc made of it. Python loads it with torch.ops.load_library(); from then on all allocations are counted.
#include <torch/library.h>
#include <torch/version.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};
c10::Allocator* wrapped = nullptr;

// In front of every block, and as large as LibTorch's alignment, so that the block keeps it. Not counted.
struct alignas(64) Header {
  int64_t bytes;
};

void note_allocation(int64_t bytes) {
  const int64_t live = live_bytes += bytes;
  int64_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
}

void free_block(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  live_bytes -= header->bytes;
  wrapped->raw_deallocate(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2
  at::DataPtr allocate(size_t bytes) override { return make(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
#else
  at::DataPtr allocate(size_t bytes) const override { return make(bytes); }
#endif
  at::DeleterFnPtr raw_deleter() const override { return &free_block; }

 private:
  static at::DataPtr make(size_t bytes) {
    if (bytes == 0) return {nullptr, nullptr, &free_block, at::kCPU};
    Header* const header = new (wrapped->raw_allocate(bytes + sizeof(Header))) Header{static_cast<int64_t>(bytes)};
    note_allocation(header->bytes);
    void* const block = header + 1;
    return {block, block, &free_block, at::kCPU};
  }
};

const bool installed = [] {
  wrapped = c10::GetCPUAllocator();
  c10::SetCPUAllocator(new CountingAllocator, /*priority=*/1);
  return true;
}();

}  // namespace

TORCH_LIBRARY(byte_counter, library) {
  library.def("live() -> int", []() -> int64_t { return live_bytes; });
  library.def("peak() -> int", []() -> int64_t { return peak_bytes; });
  library.def("reset_peak() -> ()", [] { peak_bytes = live_bytes.load(); });
}
