// Numbers to bytes and back, the same on every machine.
//
//   fixed    8 bytes, little endian; a double is its IEEE 754 bits
//   varint   7 bits per byte, lowest first, the top bit set on all but the last; at most 10 bytes
//   signed   a varint of 0, -1, 1, -2, 2, ... (zigzag)
//   id       a varint of the id plus one, so that "none" is 0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace retrace::plan {

class ByteWriter {
 public:
  explicit ByteWriter(std::string& to) : to_(to) {}

  void byte(uint8_t value) { to_.push_back(static_cast<char>(value)); }
  void fixed(uint64_t value, int bytes = 8) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void real(double value) { fixed(std::bit_cast<uint64_t>(value)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void count(size_t value) { varint(value); }
  void amount(int64_t value) { varint(static_cast<uint64_t>(value)); }
  void difference(int64_t from, int64_t to) {
    const uint64_t d = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
    varint((d << 1) ^ (0 - (d >> 63)));
  }
  void id(int32_t value) { varint(static_cast<uint64_t>(int64_t{value} + 1)); }
  void text(std::string_view value) {
    count(value.size());
    to_.append(value);
  }

 private:
  std::string& to_;
};

// `Fail` is called with what is wrong and does not return.
template <class Fail>
class ByteReader {
 public:
  ByteReader(std::string_view from, const Fail& fail) : rest_(from), fail_(fail) {}

  size_t left() const { return rest_.size(); }

  uint8_t byte() {
    if (rest_.empty()) fail_("ends too early");
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  uint64_t fixed(int bytes = 8) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= uint64_t{byte()} << (8 * i);
    return value;
  }
  double real() { return std::bit_cast<double>(fixed()); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t b = byte();
      if (shift == 63 && b > 1) break;
      value |= (b & 0x7f) << shift;
      if (b < 0x80) return value;
    }
    fail_("holds a number of more than 64 bits");
    return 0;
  }
  // How many records follow, each of at least `least` bytes: more than there is room for is refused before anything is
  // allocated for them.
  size_t count(size_t least) {
    const uint64_t value = varint();
    if (value > left() / least) fail_("announces " + std::to_string(value) + " records and has no room for them");
    return static_cast<size_t>(value);
  }
  int64_t amount() { return static_cast<int64_t>(varint()); }  // what does not fit is negative, which check() refuses
  int64_t moved(int64_t from) {
    const uint64_t z = varint();
    return static_cast<int64_t>(static_cast<uint64_t>(from) + ((z >> 1) ^ (0 - (z & 1))));
  }
  int32_t id() {
    const uint64_t value = varint();
    if (value > uint64_t{std::numeric_limits<int32_t>::max()}) fail_("holds an id of more than 31 bits");
    return static_cast<int32_t>(value) - 1;
  }
  std::string_view text(size_t most) {
    const size_t size = count(1);
    if (size > most) fail_("holds a name of " + std::to_string(size) + " bytes");
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }

 private:
  std::string_view rest_;
  const Fail& fail_;
};

}  // namespace retrace::plan
