#include "store/encode.h"

#include <algorithm>
#include <type_traits>

#include "store/kernels.h"

namespace retrace::store {
namespace {

// Neighbours at the beginning, and as many spread over the rest: a mask shows both its values, anything else a third.
constexpr size_t kSample = 128;

template <class Visit>
void sample(size_t count, const Visit& visit) {
  const size_t first = std::min(count, kSample);
  for (size_t i = 0; i < first; ++i) {
    if (!visit(i)) return;
  }
  const size_t step = std::max<size_t>(1, (count - first) / kSample);
  for (size_t i = first; i < count; i += step) {
    if (!visit(i)) return;
  }
}

// Calls f with a value of the unsigned type of that many bytes; false if there is none.
template <class F>
auto with_width(size_t element_size, const F& f) -> decltype(f(uint8_t{})) {
  switch (element_size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return {};
  }
}

template <class T>
constexpr Code kBitsOf = sizeof(T) == 1   ? Code::bits_8
                         : sizeof(T) == 2 ? Code::bits_16
                         : sizeof(T) == 4 ? Code::bits_32
                                          : Code::bits_64;

struct Values {
  uint64_t zero = 0, one = 0;
  int distinct = 0;  // 3: more than two
};

template <class T>
Values sampled_values(In<T> data, size_t count) {
  Values seen;
  sample(count, [&](size_t i) {
    const T x = data[i];
    if (seen.distinct == 0) {
      seen = {x, x, 1};
    } else if (seen.distinct == 1 && x != seen.zero) {
      seen = {seen.zero, x, 2};
    } else if (x != seen.zero && x != seen.one) {
      seen.distinct = 3;
    }
    return seen.distinct < 3;
  });
  return seen;
}

template <class T>
bool is_two_valued(const void* bytes, size_t count) {
  const auto data = static_cast<In<T>>(bytes);
  const Values seen = sampled_values<T>(data, count);
  if (seen.distinct == 0 || seen.distinct > 2) return false;
  const auto zero = static_cast<T>(seen.zero);
  auto one = static_cast<T>(seen.one);
  size_t from = 0;
  if (seen.distinct == 1) {
    from = run<FindOther<T>>(bytes, count, zero);
    if (from < count) one = data[from];
  }
  return run<AllEither<T>>(static_cast<const void*>(data + from), count - from, zero, one);
}

// The narrowest that has room for a range; none if there is none.
template <class T>
std::optional<Code> narrow_code(Range<T> range) {
  const auto width = static_cast<uint64_t>(range.largest) - static_cast<uint64_t>(range.smallest);
  const bool is_64 = sizeof(T) == 8;
  if (width <= UINT8_MAX) return is_64 ? Code::narrow_i64_to_u8 : Code::narrow_i32_to_u8;
  if (width <= UINT16_MAX) return is_64 ? Code::narrow_i64_to_u16 : Code::narrow_i32_to_u16;
  if (is_64 && width <= UINT32_MAX) return Code::narrow_i64_to_u32;
  return std::nullopt;
}

template <class T>
std::optional<Encoding> narrow_encoding(const void* bytes, size_t count) {
  if (is_two_valued<std::make_unsigned_t<T>>(bytes, count)) return std::nullopt;
  const auto data = static_cast<In<T>>(bytes);
  Range<T> seen{std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
  bool possible = true;
  sample(count, [&](size_t i) {
    const T x = data[i];
    seen = {std::min(seen.smallest, x), std::max(seen.largest, x)};
    return possible = narrow_code(seen).has_value();
  });
  if (!possible) return std::nullopt;
  const Range<T> range = run<FindRange<T>>(bytes, count);
  const auto code = narrow_code(range);
  if (!code) return std::nullopt;
  return Encoding{.code = *code, .count = count, .smallest = range.smallest};
}

std::optional<Encoding> if_smaller(std::optional<Encoding> encoding) {
  if (encoding && encoded_bytes(*encoding) >= plain_bytes(*encoding)) return std::nullopt;
  return encoding;
}

// Every combination of widths that has a loop, with a value of each type.
template <class F>
auto with_widths(Code code, const F& f) {
  switch (code) {
    case Code::bits_8:
      return f(uint8_t{}, false);
    case Code::bits_16:
      return f(uint16_t{}, false);
    case Code::bits_32:
      return f(uint32_t{}, false);
    case Code::bits_64:
      return f(uint64_t{}, false);
    case Code::narrow_i64_to_u8:
      return f(uint64_t{}, uint8_t{});
    case Code::narrow_i64_to_u16:
      return f(uint64_t{}, uint16_t{});
    case Code::narrow_i64_to_u32:
      return f(uint64_t{}, uint32_t{});
    case Code::narrow_i32_to_u8:
      return f(uint32_t{}, uint8_t{});
    case Code::narrow_i32_to_u16:
    case Code::bfloat16:  // has loops of its own
      break;
  }
  return f(uint32_t{}, uint16_t{});
}

struct Widths {
  size_t plain, encoded;  // bytes per element; 0 encoded: a bit
};

Widths widths(Code code) {
  return with_widths(code, [](auto plain, auto small) {
    return Widths{sizeof(plain), std::is_same_v<decltype(small), bool> ? 0 : sizeof(small)};
  });
}

}  // namespace

std::optional<Encoding> find_narrow(const void* data, size_t bytes, size_t element_size) {
  if ((element_size != 4 && element_size != 8) || bytes % element_size != 0) return std::nullopt;
  const size_t count = bytes / element_size;
  return if_smaller(element_size == 8 ? narrow_encoding<int64_t>(data, count) : narrow_encoding<int32_t>(data, count));
}

std::optional<Encoding> guess_bits(const void* data, size_t bytes, size_t element_size) {
  if (element_size == 0 || bytes % element_size != 0) return std::nullopt;
  return if_smaller(with_width(element_size, [&](auto t) -> std::optional<Encoding> {
    using T = decltype(t);
    const size_t count = bytes / element_size;
    const Values seen = sampled_values<T>(static_cast<In<T>>(data), count);
    if (seen.distinct != 2) return std::nullopt;
    return Encoding{.code = kBitsOf<T>, .count = count, .zero = seen.zero, .one = seen.one};
  }));
}

std::optional<Encoding> bfloat16_encoding(size_t bytes, size_t element_size) {
  if (element_size != 4 || bytes % 4 != 0 || bytes == 0) return std::nullopt;
  return Encoding{.code = Code::bfloat16, .count = bytes / 4};
}

size_t encoded_bytes(const Encoding& encoding) {
  const size_t width = widths(encoding.code).encoded;
  return width == 0 ? encoding.count / 8 + (encoding.count % 8 != 0 ? 1 : 0) : encoding.count * width;
}

size_t plain_bytes(const Encoding& encoding) { return encoding.count * widths(encoding.code).plain; }

bool encode(const Encoding& e, const void* data, void* encoded) {
  if (e.code == Code::bfloat16) return run<ToBfloat16>(data, e.count, encoded);
  return with_widths(e.code, [&](auto plain, auto small) {
    using Plain = decltype(plain);
    using Small = decltype(small);
    if constexpr (std::is_same_v<Small, bool>) {
      return run<Pack<Plain>>(data, e.count, static_cast<Plain>(e.zero), static_cast<Plain>(e.one), encoded);
    } else {
      return run<Narrow<Plain, Small>>(data, e.count, static_cast<Plain>(e.smallest), encoded);
    }
  });
}

void decode(const Encoding& e, const void* encoded, void* data) {
  if (e.code == Code::bfloat16) return run<FromBfloat16>(encoded, e.count, data);
  with_widths(e.code, [&](auto plain, auto small) {
    using Plain = decltype(plain);
    using Small = decltype(small);
    if constexpr (std::is_same_v<Small, bool>) {
      run<Unpack<Plain>>(encoded, e.count, static_cast<Plain>(e.zero), static_cast<Plain>(e.one), data);
    } else {
      run<Widen<Plain, Small>>(encoded, e.count, static_cast<Plain>(e.smallest), data);
    }
  });
}

}  // namespace retrace::store
