#include "support/bits.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>

namespace retrace::test {

namespace {

at::Tensor packed(const at::Tensor& t) { return t.detach().resolve_conj().resolve_neg().contiguous(); }

std::string describe(const at::Tensor& t) {
  std::ostringstream text;
  text << t.dtype() << " " << t.sizes();
  return text.str();
}

int64_t first_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto* left = static_cast<const char*>(a.data_ptr());
  const auto* right = static_cast<const char*>(b.data_ptr());
  const auto size = static_cast<int64_t>(a.element_size());
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::memcmp(left + i * size, right + i * size, size) != 0) return i;
  }
  return -1;
}

}  // namespace

::testing::AssertionResult same_bits(const at::Tensor& expected, const at::Tensor& actual) {
  if (!expected.defined() && !actual.defined()) return ::testing::AssertionSuccess();
  if (expected.defined() != actual.defined()) {
    return ::testing::AssertionFailure() << (actual.defined() ? "expected no tensor, got one" : "tensor is missing");
  }
  if (expected.scalar_type() != actual.scalar_type() || expected.sizes() != actual.sizes()) {
    return ::testing::AssertionFailure() << "expected " << describe(expected) << ", got " << describe(actual);
  }
  const at::Tensor a = packed(expected), b = packed(actual);
  const int64_t at = first_difference(a, b);
  if (at < 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "element " << at << " of " << a.numel() << " is " << b.flatten()[at].item()
                                       << ", expected " << a.flatten()[at].item() << " (" << describe(expected) << ")";
}

::testing::AssertionResult same_bits(const Tensors& expected, const Tensors& actual) {
  if (expected.size() != actual.size()) {
    return ::testing::AssertionFailure() << "expected " << expected.size() << " tensors, got " << actual.size();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto same = same_bits(expected[i], actual[i]);
    if (!same) return ::testing::AssertionFailure() << "tensor " << i << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

at::Tensor generator_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

}  // namespace retrace::test
