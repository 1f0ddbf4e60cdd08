// What Retrace needs from a device beside the operators that run there: memory, content, random numbers, time.
//
// The CPU is the only device today (cpu.cpp). Another device is one more file like it, and a line in device_of().
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace retrace {

class DeviceSupport {
 public:
  virtual ~DeviceSupport() = default;

  // -- Memory --

  // The allocator of LibTorch's tensors, LibTorch's own one (the program may have put another in its place), and the
  // one that is used from now on.
  virtual c10::Allocator* allocator() const = 0;
  virtual c10::Allocator* default_allocator() const = 0;
  virtual void set_allocator(c10::Allocator* allocator) const = 0;
  virtual void copy(void* to, const void* from, size_t bytes) const = 0;
  virtual void fill(void* block, unsigned char byte, size_t bytes) const = 0;

  // -- Content: none of these allocates a tensor's memory, so that looking cannot break a budget --

  // A hash of a tensor's elements, bit for bit: NaNs compare by their bits, -0 differs from 0.
  virtual uint64_t fingerprint(const at::Tensor& tensor) const = 0;
  virtual uint64_t fingerprint(const c10::Storage& storage) const = 0;                            // of all bytes
  virtual uint64_t fingerprint(const c10::Storage& storage, size_t begin, size_t end) const = 0;  // of these bytes
  // A hash of a sample of a storage: of all bytes up to 16 KiB, else of 64 pieces of 64 bytes spread evenly over it.
  // Takes about a microsecond. Notices that a tensor was written as a whole or in a good part; need not notice that a
  // few elements were.
  virtual uint64_t sample(const c10::Storage& storage) const = 0;

  // -- Random numbers. `generator` is one of this device's. The caller has locked it if others may draw from it --

  virtual const at::Generator& default_generator() const = 0;
  virtual at::Generator copy_of(const at::Generator& generator) const = 0;
  virtual void set_state(at::Generator& generator, const at::Generator& state) const = 0;
  virtual bool is_same_state(const at::Generator& a, const at::Generator& b) const = 0;
  virtual size_t generator_bytes() const = 0;  // that one generator takes

  // -- Time --

  // The time at which all work that the device was given so far is done. To time an operator, ask before and after it.
  virtual std::chrono::steady_clock::time_point now() const = 0;
};

const DeviceSupport& cpu();

// Throws NotSupported for a device that is none of those above.
const DeviceSupport& device_of(c10::DeviceType type);
const DeviceSupport& device_of(std::string_view name);  // "cpu"

inline uint64_t fingerprint(const at::Tensor& tensor) { return device_of(tensor.device().type()).fingerprint(tensor); }
inline uint64_t fingerprint(const c10::Storage& storage) {
  return device_of(storage.device_type()).fingerprint(storage);
}
inline uint64_t fingerprint(const c10::Storage& storage, size_t begin, size_t end) {
  return device_of(storage.device_type()).fingerprint(storage, begin, end);
}
inline uint64_t sample(const c10::Storage& storage) { return device_of(storage.device_type()).sample(storage); }

}  // namespace retrace
