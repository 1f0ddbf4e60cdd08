// How much memory a training step may use, as people write it.
//
//   retrace::budget("1.5GiB")                 // also "800MB", "2G", "1.5 gib", "123456"
//   retrace::budget("40%")                    // of the peak that the plain program would have
//   retrace::budget(1'500'000'000)            // bytes
//   retrace::budget("40%").best_effort()      // the smallest budget that is feasible, if this one is not
//   retrace::budget("40%").allow_bfloat16()   // gradients need not be exact: see below
//
// What is counted: all tensor bytes that are live on the device at one moment of the step; weights, gradients and
// optimizer state included. Not counted: the program itself, and what libraries allocate for themselves.
//
// Units: KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB are powers of 1000; K, M, G, T alone are powers of 1024.
// Case does not matter, except that a capital followed by a small b ("Gb") is refused: it commonly stands for bits.
#pragma once

#include <retrace/cxx20.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retrace {

class Budget;

namespace detail {
Budget budget_of(int64_t bytes);
Budget budget_of(uint64_t bytes);
}  // namespace detail

// A value: cheap to copy. Always above zero. Either bytes() or fraction() is there.
class Budget {
 public:
  // Run at the smallest feasible budget instead of throwing InfeasibleBudget. Default: throw.
  [[nodiscard]] Budget best_effort() const;

  // Values may also be held in bfloat16: half the bytes of a float, and 8 bits of its 24-bit fraction. Gradients are
  // then close to the plain program's, not equal, and a step that follows such a plan is not verified. PlanSummary
  // tells how many values are held so. Default: everything is exact.
  [[nodiscard]] Budget allow_bfloat16() const;

  std::optional<int64_t> bytes() const;
  std::optional<double> fraction() const;  // of the plain peak; above 0, at most 1
  bool is_best_effort() const { return best_effort_; }
  bool allows_bfloat16() const { return bfloat16_; }

  // "1.5GiB", "800MB", "40%": budget() reads it back. best_effort() and allow_bfloat16() are not part of it.
  std::string text() const;

  friend bool operator==(const Budget&, const Budget&) = default;

 private:
  friend Budget budget(std::string_view text);
  friend Budget detail::budget_of(int64_t bytes);
  int64_t bytes_ = 0;   // 0: in percent
  double percent_ = 0;  // 0: in bytes
  bool best_effort_ = false;
  bool bfloat16_ = false;
};

// Throws UsageError if `text` is no amount, zero, negative, not finite, above 100 %, or above 2^63 bytes.
Budget budget(std::string_view text);
Budget budget(const char* text);  // null is an error like any other

template <std::integral T>
  requires(!std::same_as<T, bool>)
Budget budget(T bytes) {
  if constexpr (std::unsigned_integral<T>) {
    return detail::budget_of(static_cast<uint64_t>(bytes));
  } else {
    return detail::budget_of(static_cast<int64_t>(bytes));
  }
}

// 0.4 could mean bytes or a fraction: write "40%".
template <std::floating_point T>
Budget budget(T) = delete;

}  // namespace retrace
