// Content held in fewer bytes. Without loss: two-valued data (dropout masks, comparisons) as one bit per element, whole
// numbers of a small range (indices, labels) in the width they need. With loss, and only if asked for: floats as
// bfloat16. Knows no LibTorch.
//
//    if (const auto encoding = guess_bits(data, bytes, 4)) {
//      std::vector<char> held(encoded_bytes(*encoding));
//      if (encode(*encoding, data, held.data())) ...   // later: decode(*encoding, held.data(), data)
//    }
//
// Two-valued is meant bitwise: -0.0 and NaNs come back as they were. Pointers need no alignment. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace retrace::store {

enum class Code : uint8_t {
  bits_8,  // one bit per element of 8, 16, 32, 64 bits; element i is bit i % 8 of byte i / 8
  bits_16,
  bits_32,
  bits_64,
  narrow_i64_to_u8,  // value minus the smallest, in fewer bytes
  narrow_i64_to_u16,
  narrow_i64_to_u32,
  narrow_i32_to_u8,
  narrow_i32_to_u16,
  bfloat16,  // of 32-bit floats the upper half, rounded to nearest, ties to even
};

// What must be known to decode, a few bytes that its owner holds beside the encoded ones.
struct Encoding {
  Code code = Code::bits_8;
  size_t count = 0;      // of elements
  uint64_t zero = 0;     // bits: the element that a 0 stands for
  uint64_t one = 0;      // bits: the element that a 1 stands for
  int64_t smallest = 0;  // narrow: what is added
};

// For what seems two-valued, from a sample alone: encode() may still find out that it does not fit. Saves a pass.
std::optional<Encoding> guess_bits(const void* data, size_t bytes, size_t element_size);

// For whole numbers of a small range, of 4 or 8 bytes; none if they would not be smaller, or are only two. Most content
// has none, which a few hundred elements show; otherwise all of it is read.
std::optional<Encoding> find_narrow(const void* data, size_t bytes, size_t element_size);

// Lossy: see Code::bfloat16. None if the bytes are no 32-bit floats.
std::optional<Encoding> bfloat16_encoding(size_t bytes, size_t element_size);

size_t encoded_bytes(const Encoding& encoding);
size_t plain_bytes(const Encoding& encoding);

// Reads plain_bytes() and writes encoded_bytes(). False if the content does not fit the encoding (which may be that of
// an earlier step): `encoded` is then rubbish and `data` as it was.
[[nodiscard]] bool encode(const Encoding& encoding, const void* data, void* encoded);

// Reads encoded_bytes() and writes plain_bytes().
void decode(const Encoding& encoding, const void* encoded, void* data);

}  // namespace retrace::store
