// The loops of encode.cpp, written so that the compiler vectorises them, once for any processor and once for AVX2.
//
// Not target_clones: it does not go with templates, and its resolvers run before sanitizers are ready.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace retrace::store {

#define RETRACE_ALWAYS_INLINE __attribute__((always_inline)) static inline

#if defined(__x86_64__) && defined(__GNUC__)
template <class Kernel, class... Args>
__attribute__((target("avx2"))) auto run_avx2(Args... args) {
  return Kernel::run(args...);
}
inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
template <class Kernel, class... Args>
auto run(Args... args) {
  return has_avx2() ? run_avx2<Kernel>(args...) : Kernel::run(args...);
}
#else
template <class Kernel, class... Args>
auto run(Args... args) {
  return Kernel::run(args...);
}
#endif

// Elements wherever they are: a storage may begin anywhere, and its type is not known to the compiler. Loops take void
// pointers, since a template argument would lose the attributes.
template <class T>
struct Anywhere {
  typedef T type __attribute__((aligned(1), may_alias));  // NOLINT(modernize-use-using): attributes
};
template <class T>
using In = const typename Anywhere<T>::type*;
template <class T>
using Out = typename Anywhere<T>::type*;

// Between two looks at whether it is worth going on.
inline constexpr size_t kStretch = 4096;

RETRACE_ALWAYS_INLINE uint64_t little_endian(const uint8_t* bytes) {
  uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, bytes, sizeof(word));
  } else {
    for (int i = 0; i < 8; ++i) word |= uint64_t{bytes[i]} << (8 * i);
  }
  return word;
}

// For each byte, its bits as eight bytes of 0 or 0xff.
inline constexpr auto kSpread = [] {
  std::array<std::array<uint8_t, 8>, 256> table{};
  for (unsigned b = 0; b < 256; ++b) {
    for (unsigned i = 0; i < 8; ++i) table[b][i] = (b >> i & 1) != 0 ? 0xff : 0;
  }
  return table;
}();

// The eight lowest bits of eight bytes, which are 0 or 1, as one byte; the first is the lowest.
RETRACE_ALWAYS_INLINE uint8_t gather_bits(const uint8_t* bytes) {
  const uint64_t word = little_endian(bytes);
  return static_cast<uint8_t>((word * 0x0102040810204080U) >> 56);
}

// Elements that are `zero` or `one` to bits; false at the first stretch that has others.
template <class T>
struct Pack {
  static constexpr size_t kBlock = 64;

  RETRACE_ALWAYS_INLINE T block(In<T> in, T zero, T one, uint8_t* out) {
    alignas(kBlock) std::array<uint8_t, kBlock> is_one;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    T strange = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const T x = in[i];
      strange = static_cast<T>(strange | (static_cast<T>(x != one) & static_cast<T>(x != zero)));
      is_one[i] = static_cast<uint8_t>(x == one);
    }
    for (size_t i = 0; i < kBlock / 8; ++i) out[i] = gather_bits(is_one.data() + 8 * i);
    return strange;
  }

  RETRACE_ALWAYS_INLINE bool run(const void* from, size_t count, T zero, T one, void* to) {
    auto* const out = static_cast<uint8_t*>(to);
    const auto in = static_cast<In<T>>(from);
    size_t at = 0;
    while (count - at >= kBlock) {
      T strange = 0;
      const size_t stop = at + std::min(kStretch, (count - at) / kBlock * kBlock);
      for (; at < stop; at += kBlock) strange = static_cast<T>(strange | block(in + at, zero, one, out + at / 8));
      if (strange != 0) return false;
    }
    for (; at < count; ++at) {
      const T x = in[at];
      if (x != zero && x != one) return false;
      if (at % 8 == 0) out[at / 8] = 0;
      out[at / 8] = static_cast<uint8_t>(out[at / 8] | (x == one ? 1U << at % 8 : 0U));
    }
    return true;
  }
};

// Bits to elements.
template <class T>
struct Unpack {
  static constexpr size_t kBlock = 64;

  RETRACE_ALWAYS_INLINE void run(const void* from, size_t count, T zero, T one, void* to) {
    const auto* const in = static_cast<const uint8_t*>(from);
    const auto out = static_cast<Out<T>>(to);
    const T difference = static_cast<T>(zero ^ one);
    alignas(kBlock) std::array<uint8_t, kBlock> mask;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    size_t at = 0;
    for (; count - at >= kBlock; at += kBlock) {
      for (size_t b = 0; b < kBlock / 8; ++b) std::memcpy(mask.data() + 8 * b, kSpread[in[at / 8 + b]].data(), 8);
      for (size_t i = 0; i < kBlock; ++i) {
        const auto all = static_cast<T>(static_cast<int8_t>(mask[i]));  // 0 or all ones, as wide as an element
        out[at + i] = static_cast<T>(zero ^ (all & difference));
      }
    }
    for (; at < count; ++at) out[at] = (in[at / 8] >> at % 8 & 1) != 0 ? one : zero;
  }
};

// Whether all elements are `zero` or `one`.
template <class T>
struct AllEither {
  RETRACE_ALWAYS_INLINE bool run(const void* from, size_t count, T zero, T one) {
    const auto in = static_cast<In<T>>(from);
    for (size_t at = 0; at < count;) {
      T strange = 0;
      const size_t stop = std::min(count, at + kStretch);
      for (; at < stop; ++at)
        strange = static_cast<T>(strange | (static_cast<T>(in[at] != one) & static_cast<T>(in[at] != zero)));
      if (strange != 0) return false;
    }
    return true;
  }
};

// The position of the first element that is not `same`; `count` if there is none.
template <class T>
struct FindOther {
  RETRACE_ALWAYS_INLINE size_t run(const void* from, size_t count, T same) {
    const auto in = static_cast<In<T>>(from);
    for (size_t at = 0; at < count; at += kStretch) {
      T other = 0;
      const size_t stop = std::min(count, at + kStretch);
      for (size_t i = at; i < stop; ++i) other = static_cast<T>(other | (in[i] ^ same));
      if (other == 0) continue;
      while (in[at] == same) ++at;
      return at;
    }
    return count;
  }
};

template <class T>
struct Range {
  T smallest, largest;
};

template <class T>
struct FindRange {
  RETRACE_ALWAYS_INLINE Range<T> run(const void* from, size_t count) {
    const auto in = static_cast<In<T>>(from);
    Range<T> range{std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
    for (size_t i = 0; i < count; ++i) {
      range.smallest = in[i] < range.smallest ? in[i] : range.smallest;
      range.largest = in[i] > range.largest ? in[i] : range.largest;
    }
    return range;
  }
};

// Wide and Small are unsigned: differences wrap as they should.
template <class Wide, class Small>
struct Narrow {
  RETRACE_ALWAYS_INLINE bool run(const void* from, size_t count, Wide smallest, void* to) {
    const auto out = static_cast<Out<Small>>(to);
    const auto in = static_cast<In<Wide>>(from);
    for (size_t at = 0; at < count;) {
      Wide seen = 0;
      const size_t stop = std::min(count, at + kStretch);
      for (; at < stop; ++at) {
        const Wide difference = in[at] - smallest;
        seen |= difference;
        out[at] = static_cast<Small>(difference);
      }
      if (seen > std::numeric_limits<Small>::max()) return false;
    }
    return true;
  }
};

template <class Wide, class Small>
struct Widen {
  RETRACE_ALWAYS_INLINE void run(const void* from, size_t count, Wide smallest, void* to) {
    const auto out = static_cast<Out<Wide>>(to);
    const auto in = static_cast<In<Small>>(from);
    for (size_t i = 0; i < count; ++i) out[i] = smallest + in[i];
  }
};

// The upper half of a float, rounded; a NaN stays one, and stays quiet.
struct ToBfloat16 {
  RETRACE_ALWAYS_INLINE bool run(const void* from, size_t count, void* to) {
    const auto in = static_cast<In<uint32_t>>(from);
    const auto out = static_cast<Out<uint16_t>>(to);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t x = in[i];
      const uint32_t rounded = (x + 0x7fffU + (x >> 16 & 1U)) >> 16;
      const uint32_t nan = x >> 16 | 0x40U;
      out[i] = static_cast<uint16_t>((x & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
    }
    return true;
  }
};

struct FromBfloat16 {
  RETRACE_ALWAYS_INLINE void run(const void* from, size_t count, void* to) {
    const auto in = static_cast<In<uint16_t>>(from);
    const auto out = static_cast<Out<uint32_t>>(to);
    for (size_t i = 0; i < count; ++i) out[i] = uint32_t{in[i]} << 16;
  }
};

#undef RETRACE_ALWAYS_INLINE

}  // namespace retrace::store
