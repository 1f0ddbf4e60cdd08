#include "support/operators.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <stdexcept>

namespace retrace::test {

namespace {

std::atomic<int64_t> runs{0};
std::atomic<int64_t> unstable_calls{0};
std::atomic<bool> broken{false};

at::Tensor twice_cpu(const at::Tensor& x) {
  ++runs;
  return at::mul(x, 2);
}

at::Tensor unstable_cpu(const at::Tensor& x) { return at::add(x, static_cast<double>(++unstable_calls)); }

std::tuple<at::Tensor, int64_t> with_number_cpu(const at::Tensor& x) {
  ++runs;
  return {at::mul(x, 3), x.size(0)};
}

std::tuple<at::Tensor, at::Tensor> sine_and_cosine_cpu(const at::Tensor& x) {
  ++runs;
  return {at::sin(x), at::cos(x)};
}

at::Tensor fragile_cpu(const at::Tensor& x) {
  if (broken) throw std::domain_error("too fragile");
  return at::add(x, 1);
}

void silent_double_cpu(const at::Tensor& x) {
  auto* const p = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] *= 2;
}

void silent_double_of_all_cpu(const c10::Dict<int64_t, at::Tensor>& tensors) {
  for (const auto& entry : tensors) silent_double_cpu(entry.value());
}

template <class Signature>
auto find(const char* operator_name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(operator_name, "").typed<Signature>();
}

}  // namespace

TORCH_LIBRARY(retrace_test, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.def("unstable(Tensor x) -> Tensor");
  m.def("with_number(Tensor x) -> (Tensor, int)");
  m.def("sine_and_cosine(Tensor x) -> (Tensor, Tensor)");
  m.def("fragile(Tensor x) -> Tensor");
  m.def("silent_double(Tensor x) -> ()");
  m.def("silent_double_of_all(Dict(int, Tensor) tensors) -> ()");
}

// A dictionary carries no dispatch key.
TORCH_LIBRARY_IMPL(retrace_test, CompositeExplicitAutograd, m) {
  m.impl("silent_double_of_all", silent_double_of_all_cpu);
}

TORCH_LIBRARY_IMPL(retrace_test, CPU, m) {
  m.impl("twice", twice_cpu);
  m.impl("unstable", unstable_cpu);
  m.impl("with_number", with_number_cpu);
  m.impl("sine_and_cosine", sine_and_cosine_cpu);
  m.impl("fragile", fragile_cpu);
  m.impl("silent_double", silent_double_cpu);
}

at::Tensor counted_twice(const at::Tensor& x) {
  static const auto op = find<at::Tensor(const at::Tensor&)>("retrace_test::twice");
  return op.call(x);
}

int64_t times_run() { return runs.exchange(0); }

at::Tensor unstable(const at::Tensor& x) {
  static const auto op = find<at::Tensor(const at::Tensor&)>("retrace_test::unstable");
  return op.call(x);
}

std::tuple<at::Tensor, int64_t> with_number(const at::Tensor& x) {
  static const auto op = find<std::tuple<at::Tensor, int64_t>(const at::Tensor&)>("retrace_test::with_number");
  return op.call(x);
}

std::tuple<at::Tensor, at::Tensor> sine_and_cosine(const at::Tensor& x) {
  static const auto op = find<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>("retrace_test::sine_and_cosine");
  return op.call(x);
}

at::Tensor fragile(const at::Tensor& x) {
  static const auto op = find<at::Tensor(const at::Tensor&)>("retrace_test::fragile");
  return op.call(x);
}

void break_fragile(bool on) { broken = on; }

void silent_double(const at::Tensor& x) {
  static const auto op = find<void(const at::Tensor&)>("retrace_test::silent_double");
  op.call(x);
}

void silent_double_of_all(const std::vector<at::Tensor>& tensors) {
  static const auto op = find<void(const c10::Dict<int64_t, at::Tensor>&)>("retrace_test::silent_double_of_all");
  c10::Dict<int64_t, at::Tensor> all;
  for (const at::Tensor& t : tensors) all.insert(static_cast<int64_t>(all.size()), t);
  op.call(all);
}

}  // namespace retrace::test
