#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "device/cpu_fingerprint.h"
#include "device/device.h"

namespace retrace {
namespace {

// Its functions that only read are not const.
at::CPUGeneratorImpl& impl(const at::Generator& generator) {
  return *static_cast<at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

class Cpu final : public DeviceSupport {
 public:
  c10::Allocator* allocator() const override { return c10::GetCPUAllocator(); }
  c10::Allocator* default_allocator() const override { return c10::GetDefaultCPUAllocator(); }
  void set_allocator(c10::Allocator* allocator) const override { c10::SetCPUAllocator(allocator, /*priority=*/1); }
  void copy(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  void fill(void* block, unsigned char byte, size_t bytes) const override { std::memset(block, byte, bytes); }

  uint64_t fingerprint(const at::Tensor& tensor) const override { return cpu_fingerprint(tensor); }
  uint64_t fingerprint(const c10::Storage& storage) const override { return cpu_fingerprint(storage); }
  uint64_t fingerprint(const c10::Storage& storage, size_t begin, size_t end) const override {
    return cpu_fingerprint(storage, begin, end);
  }
  uint64_t sample(const c10::Storage& storage) const override { return cpu_sample(storage); }

  const at::Generator& default_generator() const override { return at::detail::getDefaultCPUGenerator(); }

  // Not Generator::clone(): LibTorch 1.13 never frees what that makes, 2.6 kB each time.
  at::Generator copy_of(const at::Generator& generator) const override {
    if (!dynamic_cast<const at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl())) return generator.clone();
    at::Generator copy = at::make_generator<at::CPUGeneratorImpl>();
    set_state(copy, generator);
    return copy;
  }

  void set_state(at::Generator& generator, const at::Generator& state) const override {
    at::CPUGeneratorImpl &to = impl(generator), &from = impl(state);
    to.set_engine(from.engine());
    to.set_next_float_normal_sample(from.next_float_normal_sample());
    to.set_next_double_normal_sample(from.next_double_normal_sample());
  }

  bool is_same_state(const at::Generator& one, const at::Generator& other) const override {
    at::CPUGeneratorImpl &a = impl(one), &b = impl(other);
    const auto x = a.engine().data(), y = b.engine().data();
    return x.seed_ == y.seed_ && x.left_ == y.left_ && x.next_ == y.next_ && x.state_ == y.state_ &&
           a.next_float_normal_sample() == b.next_float_normal_sample() &&
           a.next_double_normal_sample() == b.next_double_normal_sample();
  }

  size_t generator_bytes() const override { return sizeof(at::CPUGeneratorImpl); }

  // An operator has run when its call returns.
  std::chrono::steady_clock::time_point now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

// Never destroyed: blocks are freed by static destructors too.
const DeviceSupport& cpu() {
  static const Cpu* const instance = new Cpu;
  return *instance;
}

}  // namespace retrace
