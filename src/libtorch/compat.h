// Every difference between LibTorch 1.13 and 2.14 that Retrace meets, in one place.
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DispatchKey.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/version.h>

namespace retrace::compat {

// A functionality key that core leaves free, below autograd and above the backends. Core is moving into it after 2.14:
// whoever upgrades looks here first.
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;

#if TORCH_VERSION_MAJOR >= 2

class Allocator : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) final { return make(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const final { default_copy_data(to, from, bytes); }

 private:
  virtual at::DataPtr make(size_t bytes) const = 0;
};

class SavedVariableHooks : public torch::autograd::SavedVariableHooks {
 public:
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const final {
    return std::nullopt;
  }
};

inline at::ScalarType autocast_cpu_dtype() { return at::autocast::get_autocast_dtype(at::kCPU); }
inline void set_autocast_cpu_dtype(at::ScalarType dtype) { at::autocast::set_autocast_dtype(at::kCPU, dtype); }

inline void set_matmul_precision(int precision) {
  constexpr const char* kNames[] = {"highest", "high", "medium"};
  at::globalContext().setFloat32MatmulPrecision(kNames[precision]);
}

inline bool has_names(const at::Tensor&) { return false; }  // 2.14 has no named tensors

#else

class Allocator : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) const final { return make(bytes); }

 private:
  virtual at::DataPtr make(size_t bytes) const = 0;
};

using torch::autograd::SavedVariableHooks;

inline at::ScalarType autocast_cpu_dtype() { return at::autocast::get_autocast_cpu_dtype(); }
inline void set_autocast_cpu_dtype(at::ScalarType dtype) { at::autocast::set_autocast_cpu_dtype(dtype); }

inline void set_matmul_precision(int precision) {
  at::globalContext().setFloat32MatmulPrecision(static_cast<at::Float32MatmulPrecision>(precision));
}

inline bool has_names(const at::Tensor& tensor) { return tensor.has_names(); }

#endif

}  // namespace retrace::compat
