// checkpoint(): run a function now, keep nothing that it computes inside, rebuild it when backward asks for it.
//
//   auto y = retrace::checkpoint(block, x);
//   auto [a, b] = retrace::checkpoint([&](auto u, auto v) { return std::tuple(f(u), g(v)); }, u, v);
//
// The function runs once. Its operators are recorded and only those are replayed, so it may print, count, draw random
// numbers, update BatchNorm statistics and capture references to locals. Arguments and results may be of any type.
// With gradients disabled it is a plain call.
#pragma once

#include <retrace/cxx20.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <retrace/policy.h>

namespace retrace {

struct CheckpointOptions {
  Policy policy = recompute_all();
  bool verify = false;  // compare every byte of each rebuilt value with a fingerprint of the original, not a sample
};

namespace detail {

// While one lives, this thread records under its policy. Nests; ends on any way out of the scope.
class Region {
 public:
  Region();
  explicit Region(const CheckpointOptions& options);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  std::shared_ptr<void> scope_;
};

// A callable, a pointer to a module (torch::nn::Linear, std::shared_ptr<BlockImpl>), or a module itself.
// Modules are asked for forward() first: a holder's operator() does not work for torch::nn::Sequential.
template <class F, class... Args>
concept Module = requires(F&& fn, Args&&... args) {
  fn->forward(std::forward<Args>(args)...);
};
template <class F, class... Args>
concept HasForward = requires(F&& fn, Args&&... args) {
  fn.forward(std::forward<Args>(args)...);
};
template <class F, class... Args>
concept Callable = Module<F, Args...> || std::invocable<F, Args...> || HasForward<F, Args...>;

template <class F, class... Args>
  requires Callable<F, Args...>
decltype(auto) call(F&& fn, Args&&... args) {
  if constexpr (Module<F, Args...>) {
    return fn->forward(std::forward<Args>(args)...);
  } else if constexpr (std::invocable<F, Args...>) {
    return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
  } else {
    return fn.forward(std::forward<Args>(args)...);
  }
}

template <class T>
concept NotOptions = !std::is_same_v<std::remove_cvref_t<T>, CheckpointOptions>;

}  // namespace detail

template <detail::NotOptions F, class... Args>
  requires detail::Callable<F, Args...>
decltype(auto) checkpoint(F&& fn, Args&&... args) {
  detail::Region region;
  return detail::call(std::forward<F>(fn), std::forward<Args>(args)...);
}

template <class F, class... Args>
  requires detail::Callable<F, Args...>
decltype(auto) checkpoint(const CheckpointOptions& options, F&& fn, Args&&... args) {
  detail::Region region(options);
  return detail::call(std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace retrace
