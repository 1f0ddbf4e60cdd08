#include "store/encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "store/kernels.h"

namespace retrace::store::encode_test {
namespace {

// Content at any alignment, with guards on both sides of whatever is written.
class Buffer {
 public:
  explicit Buffer(size_t bytes, size_t offset) : offset_(kGuard + offset), bytes_(bytes) {
    memory_.assign(offset_ + bytes + kGuard, kGuardByte);
  }
  void* data() { return memory_.data() + offset_; }
  template <class T>
  T at(size_t i) const {
    T value;
    std::memcpy(&value, memory_.data() + offset_ + i * sizeof(T), sizeof(T));
    return value;
  }
  bool guards_are_whole() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + bytes_) && memory_[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kGuardByte = 0xa5;
  size_t offset_, bytes_;
  std::vector<unsigned char> memory_;
};

template <class T>
Buffer placed(const std::vector<T>& content, size_t offset) {
  Buffer buffer(content.size() * sizeof(T), offset);
  if (!content.empty()) std::memcpy(buffer.data(), content.data(), content.size() * sizeof(T));
  return buffer;
}

template <class T>
void expect_round_trip(const std::vector<T>& content, const Encoding& encoding, size_t offset = 0) {
  ASSERT_EQ(plain_bytes(encoding), content.size() * sizeof(T));
  Buffer plain = placed(content, offset), encoded(encoded_bytes(encoding), offset), back(plain_bytes(encoding), offset);
  ASSERT_TRUE(encode(encoding, plain.data(), encoded.data()));
  decode(encoding, encoded.data(), back.data());
  EXPECT_TRUE(encoded.guards_are_whole() && back.guards_are_whole());
  for (size_t i = 0; i < content.size(); ++i) {
    ASSERT_EQ(back.at<T>(i), content[i]) << "element " << i << " of " << content.size() << " at offset " << offset;
  }
}

template <class T>
void expect_narrow(const std::vector<T>& content, Code code) {
  const auto found = find_narrow(content.data(), content.size() * sizeof(T), sizeof(T));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->code, code);
  expect_round_trip(content, *found);
}

template <class T>
void expect_not_narrow(const std::vector<T>& content) {
  EXPECT_FALSE(find_narrow(content.data(), content.size() * sizeof(T), sizeof(T)).has_value());
}

template <class T>
std::vector<T> mask(size_t count, T zero, T one, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<T> content(count);
  for (T& x : content) x = random() % 3 == 0 ? one : zero;
  return content;
}

template <class T>
std::vector<T> numbers(size_t count, int64_t from, uint64_t below) {
  std::mt19937_64 random(count);
  std::vector<T> content(count);
  for (T& x : content) x = static_cast<T>(static_cast<uint64_t>(from) + random() % below);
  return content;
}

template <class T>
class Bits : public ::testing::Test {};
using Widths = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Bits, Widths);

template <class T>
constexpr Code kCode = sizeof(T) == 1   ? Code::bits_8
                       : sizeof(T) == 2 ? Code::bits_16
                       : sizeof(T) == 4 ? Code::bits_32
                                        : Code::bits_64;

TYPED_TEST(Bits, EveryLengthAtEveryAlignmentComesBack) {
  using T = TypeParam;
  const auto zero = static_cast<T>(0x0123456789abcdef), one = static_cast<T>(~zero);
  for (size_t count = 0; count <= 130; ++count) {
    const Encoding encoding{.code = kCode<T>, .count = count, .zero = zero, .one = one};
    EXPECT_EQ(encoded_bytes(encoding), (count + 7) / 8);
    for (size_t offset = 0; offset < 9; ++offset) expect_round_trip(mask<T>(count, zero, one), encoding, offset);
  }
}

TYPED_TEST(Bits, OneStrangeElementAnywhereIsNoticed) {
  using T = TypeParam;
  for (const size_t count : {1U, 7U, 64U, 65U, 130U, 5000U}) {
    const Encoding encoding{.code = kCode<T>, .count = count, .zero = 3, .one = 7};
    std::vector<T> content = mask<T>(count, 3, 7);
    std::vector<unsigned char> encoded(encoded_bytes(encoding));
    for (size_t i = 0; i<count; i += count> 1000 ? 97 : 1) {
      const T before = std::exchange(content[i], T{5});  // shares bits with both
      EXPECT_FALSE(encode(encoding, content.data(), encoded.data())) << i << " of " << count;
      content[i] = before;
    }
    EXPECT_TRUE(encode(encoding, content.data(), encoded.data()));
  }
}

TYPED_TEST(Bits, TheVectorisedLoopsAgreeWithThePlainOnes) {
  using T = TypeParam;
  const std::vector<T> content = mask<T>(10'007, 9, 200);
  std::vector<uint8_t> plain(1251), vectorised(1251);
  const void* const data = content.data();
  EXPECT_TRUE(Pack<T>::run(content.data(), content.size(), T{9}, T{200}, plain.data()));
  EXPECT_TRUE(run<Pack<T>>(data, content.size(), T{9}, T{200}, static_cast<void*>(vectorised.data())));
  EXPECT_EQ(plain, vectorised);
  std::vector<T> back(content.size());
  Unpack<T>::run(plain.data(), content.size(), T{9}, T{200}, back.data());
  EXPECT_EQ(back, content);
}

TYPED_TEST(Bits, AGuessIsCheckedByEncode) {
  std::vector<TypeParam> content = mask<TypeParam>(10'000, 0, 1);
  const auto guess = guess_bits(content.data(), content.size() * sizeof(TypeParam), sizeof(TypeParam));
  ASSERT_TRUE(guess.has_value());
  expect_round_trip(content, *guess);
  content[9'998] = 2;
  std::vector<unsigned char> encoded(encoded_bytes(*guess));
  EXPECT_FALSE(encode(*guess, content.data(), encoded.data()));
}

TEST(Encode, ElementIIsBitIModulo8OfByteIDividedBy8) {
  const std::vector<uint8_t> content{1, 0, 0, 1, 0, 0, 0, 1, 0, 1};
  std::vector<uint8_t> encoded(2);
  ASSERT_TRUE(encode({.code = Code::bits_8, .count = 10, .zero = 0, .one = 1}, content.data(), encoded.data()));
  EXPECT_EQ(encoded, (std::vector<uint8_t>{0b1000'1001, 0b10}));
}

TEST(Encode, FloatsAreComparedByTheirBits) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  const uint32_t other_nan = bits(kNaN) ^ 1;
  for (const auto& [a, b] : {std::pair{bits(0.0F), bits(-0.0F)},
                             {bits(kNaN), other_nan},
                             {bits(kNaN), bits(1.0F)},
                             {0x7f800001U, 0xff800001U},
                             {1U, 0x80000001U}}) {
    const std::vector<uint32_t> content = mask<uint32_t>(1000, a, b);
    expect_round_trip(content, guess_bits(content.data(), 4000, 4).value());
  }
  std::vector<uint32_t> three = mask<uint32_t>(1000, bits(0.0F), bits(1.0F));
  const Encoding guess = guess_bits(three.data(), 4000, 4).value();
  three[500] = bits(-0.0F);  // equal to 0.0 as a number, and lost if it were taken for it
  std::vector<unsigned char> encoded(encoded_bytes(guess));
  EXPECT_FALSE(encode(guess, three.data(), encoded.data()));
}

TEST(Encode, IndicesAreNarrowedToWhatTheyNeed) {
  expect_narrow(numbers<int64_t>(1000, 0, 256), Code::narrow_i64_to_u8);
  expect_narrow(numbers<int64_t>(1000, 0, 65536), Code::narrow_i64_to_u16);
  expect_narrow(numbers<int64_t>(1000, 0, uint64_t{1} << 32), Code::narrow_i64_to_u32);
  expect_narrow(numbers<int32_t>(1000, 0, 256), Code::narrow_i32_to_u8);
  expect_narrow(numbers<int32_t>(1000, 0, 65536), Code::narrow_i32_to_u16);
  expect_not_narrow(numbers<int64_t>(1000, 0, uint64_t{1} << 34));
  expect_not_narrow(numbers<int32_t>(1000, 0, 1 << 18));
}

TEST(Encode, NegativeAndExtremeNumbersAreNarrowedToo) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  expect_narrow(numbers<int64_t>(1000, -100, 200), Code::narrow_i64_to_u8);
  expect_narrow(numbers<int64_t>(1000, kMin, 200), Code::narrow_i64_to_u8);
  expect_narrow(numbers<int64_t>(1000, kMax - 199, 200), Code::narrow_i64_to_u8);
  expect_narrow(numbers<int32_t>(1000, std::numeric_limits<int32_t>::min(), 200), Code::narrow_i32_to_u8);
  expect_not_narrow(std::vector<int64_t>{kMin, 0, kMax});
  expect_narrow(std::vector<int64_t>{0, 5, 255}, Code::narrow_i64_to_u8);
  expect_narrow(std::vector<int64_t>{-1, 5, 255}, Code::narrow_i64_to_u16);
}

TEST(Encode, EveryLengthOfNumbersAtEveryAlignmentComesBack) {
  for (size_t count = 0; count <= 130; ++count) {
    for (size_t offset = 0; offset < 9; ++offset) {
      const auto wide = numbers<int64_t>(count, -7, 250);
      const auto small = numbers<int32_t>(count, -7, 250);
      const auto with = [&](Code code) { return Encoding{.code = code, .count = count, .smallest = -7}; };
      expect_round_trip(wide, with(Code::narrow_i64_to_u8), offset);
      expect_round_trip(wide, with(Code::narrow_i64_to_u16), offset);
      expect_round_trip(wide, with(Code::narrow_i64_to_u32), offset);
      expect_round_trip(small, with(Code::narrow_i32_to_u8), offset);
      expect_round_trip(small, with(Code::narrow_i32_to_u16), offset);
    }
  }
}

TEST(Encode, NumbersOutsideTheRangeOfAnEarlierStepAreNoticed) {
  const Encoding encoding{.code = Code::narrow_i64_to_u8, .count = 5000, .smallest = 10};
  std::vector<int64_t> content = numbers<int64_t>(5000, 10, 256);
  std::vector<unsigned char> encoded(encoded_bytes(encoding));
  for (const size_t i : {0U, 4095U, 4096U, 4999U}) {
    for (const int64_t strange : {int64_t{9}, int64_t{266}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
      const int64_t before = std::exchange(content[i], strange);
      EXPECT_FALSE(encode(encoding, content.data(), encoded.data())) << strange << " at " << i;
      content[i] = before;
    }
  }
  EXPECT_TRUE(encode(encoding, content.data(), encoded.data()));
}

template <class T>
void expect_two_values_are_noticed(Code code) {
  expect_not_narrow(mask<T>(1000, 0, 1));
  expect_not_narrow(std::vector<T>(1000, 42));
  for (const size_t at : {0U, 127U, 129U, 50'001U, 99'999U}) {
    std::vector<T> content(100'000, 1);
    content[at] = 2;  // a sample may miss it
    expect_not_narrow(content);
    content[(at + 50'000) % 100'000] = 3;
    expect_narrow(content, code);
  }
}

TEST(Encode, WhatHasAtMostTwoValuesIsNotNarrowed) {
  expect_two_values_are_noticed<int64_t>(Code::narrow_i64_to_u8);
  expect_two_values_are_noticed<int32_t>(Code::narrow_i32_to_u8);
}

TEST(Encode, ActivationsHaveNoEncoding) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> content(10'000);
  for (float& x : content) x = normal(random);
  EXPECT_FALSE(guess_bits(content.data(), 40'000, 4).has_value());
  for (float& x : content) x = std::max(x, 0.0F);
  EXPECT_FALSE(guess_bits(content.data(), 40'000, 4).has_value());
}

TEST(Encode, WhatWouldNotBecomeSmallerHasNoEncoding) {
  EXPECT_FALSE(find_narrow(nullptr, 0, 4).has_value());
  EXPECT_FALSE(guess_bits(nullptr, 0, 4).has_value());
}

uint32_t through_bfloat16(uint32_t bits) {
  const auto encoding = bfloat16_encoding(4, 4);
  uint16_t half = 0;
  uint32_t back = 0;
  EXPECT_TRUE(encode(*encoding, &bits, &half));
  decode(*encoding, &half, &back);
  return back;
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(through_bfloat16(0x3f800000), 0x3f800000U);  // 1
  EXPECT_EQ(through_bfloat16(0x3f807fff), 0x3f800000U);
  EXPECT_EQ(through_bfloat16(0x3f808000), 0x3f800000U);  // a tie, down to even
  EXPECT_EQ(through_bfloat16(0x3f808001), 0x3f810000U);
  EXPECT_EQ(through_bfloat16(0x3f818000), 0x3f820000U);  // a tie, up to even
  EXPECT_EQ(through_bfloat16(0x80000000), 0x80000000U);  // -0
  EXPECT_EQ(through_bfloat16(0x00000001), 0x00000000U);
}

TEST(Bfloat16, InfinitiesAndNansStayWhatTheyAre) {
  EXPECT_EQ(through_bfloat16(0x7f800000), 0x7f800000U);
  EXPECT_EQ(through_bfloat16(0xff800000), 0xff800000U);
  EXPECT_EQ(through_bfloat16(0x7f7fffff), 0x7f800000U);  // beyond the largest
  for (const uint32_t nan : {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7fffffffU}) {
    EXPECT_GT(through_bfloat16(nan) & 0x7fffffffU, 0x7f800000U) << nan;
  }
}

TEST(Bfloat16, EveryLengthAtEveryAlignmentTakesHalfTheBytes) {
  for (size_t count = 1; count <= 130; ++count) {
    for (size_t offset = 0; offset < 5; ++offset) {
      std::vector<float> content(count);
      for (size_t i = 0; i < count; ++i) content[i] = static_cast<float>(i) - 64;  // 8 bits of fraction suffice
      const auto encoding = bfloat16_encoding(count * 4, 4);
      ASSERT_TRUE(encoding);
      EXPECT_EQ(encoded_bytes(*encoding), count * 2);
      expect_round_trip(content, *encoding, offset);
    }
  }
}

TEST(Bfloat16, IsForFloatsAlone) {
  EXPECT_FALSE(bfloat16_encoding(8, 8));
  EXPECT_FALSE(bfloat16_encoding(7, 4));
  EXPECT_FALSE(bfloat16_encoding(0, 4));
}

TEST(Encode, OddSizesHaveNoEncoding) {
  const std::vector<uint8_t> content(96, 1);
  for (const size_t bytes : {1U, 2U, 16U, 3U, 0U}) EXPECT_FALSE(find_narrow(content.data(), 96, bytes).has_value());
  EXPECT_FALSE(find_narrow(content.data(), 95, 4).has_value());
  EXPECT_FALSE(guess_bits(content.data(), 95, 4).has_value());
}

}  // namespace
}  // namespace retrace::store::encode_test
