// checkpoint(): run a function now, keep nothing of what happens inside, rebuild it when backward asks.
//
//   auto y = retrace::checkpoint(block, x);
//   auto [a, b] = retrace::checkpoint([&](auto u, auto v) { return std::tuple(f(u), g(v)); }, u, v);
//
// The function runs once. Its operators are recorded and only those are replayed, so it may print, count, draw random
// numbers, update BatchNorm statistics and capture references to locals. Arguments and results may be of any type.
// With gradients disabled it is a plain call.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <retrace/policy.h>

namespace retrace {

struct CheckpointOptions {
  Policy policy = recompute_all();
  bool verify = false;  // compare every rebuilt value with a fingerprint of the original, bit for bit
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

template <class T>
concept NotOptions = !std::is_same_v<std::remove_cvref_t<T>, CheckpointOptions>;

}  // namespace detail

template <detail::NotOptions F, class... Args>
  requires std::invocable<F, Args...>
decltype(auto) checkpoint(F&& fn, Args&&... args) {
  detail::Region region;
  return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
}

template <class F, class... Args>
  requires std::invocable<F, Args...>
decltype(auto) checkpoint(const CheckpointOptions& options, F&& fn, Args&&... args) {
  detail::Region region(options);
  return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace retrace
