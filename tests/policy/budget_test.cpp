#include <gtest/gtest.h>

#include <limits>

#include <retrace/budget.h>
#include <retrace/errors.h>

namespace retrace::budget_test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t bytes(std::string_view text) { return budget(text).bytes().value(); }

std::string message(std::string_view text) {
  try {
    const Budget b = budget(text);
    return "accepted as " + b.text();
  } catch (const UsageError& error) {
    return error.what();
  }
}

void expect_refused(std::string_view text, std::string_view why) {
  const std::string what = message(text);
  EXPECT_TRUE(what.starts_with("[budget] '" + std::string(text) + "': ")) << what;
  EXPECT_NE(what.find(why), std::string::npos) << what;
  EXPECT_NE(what.find("Write an amount such as"), std::string::npos) << what;
}

template <class T>
concept MakesBudget = requires(T t) {
  budget(t);
};
static_assert(MakesBudget<int> && MakesBudget<size_t> && MakesBudget<std::string> && MakesBudget<const char*>);
static_assert(!MakesBudget<double> && !MakesBudget<float> && !MakesBudget<bool>);

TEST(Budget, UnitsWithAnIArePowersOf1024) {
  EXPECT_EQ(bytes("1KiB"), 1024);
  EXPECT_EQ(bytes("3MiB"), int64_t{3} << 20);
  EXPECT_EQ(bytes("1.5GiB"), (int64_t{3} << 30) / 2);
  EXPECT_EQ(bytes("2TiB"), int64_t{2} << 40);
}

TEST(Budget, UnitsWithoutItArePowersOf1000) {
  EXPECT_EQ(bytes("1kB"), 1000);
  EXPECT_EQ(bytes("1KB"), 1000);
  EXPECT_EQ(bytes("800MB"), 800'000'000);
  EXPECT_EQ(bytes("0.5GB"), 500'000'000);
  EXPECT_EQ(bytes("1TB"), 1'000'000'000'000);
}

TEST(Budget, BareLettersArePowersOf1024) {
  EXPECT_EQ(bytes("2G"), int64_t{2} << 30);
  EXPECT_EQ(bytes("2g"), int64_t{2} << 30);
  EXPECT_EQ(bytes("1k"), 1024);
  EXPECT_EQ(bytes("1M"), 1 << 20);
  EXPECT_EQ(bytes("1T"), int64_t{1} << 40);
}

TEST(Budget, BytesNeedNoUnit) {
  EXPECT_EQ(bytes("123456"), 123456);
  EXPECT_EQ(bytes("123456B"), 123456);
  EXPECT_EQ(bytes("123456 bytes"), 123456);
  EXPECT_EQ(bytes("1e9"), 1'000'000'000);
}

TEST(Budget, SpacesAndCaseDoNotMatter) {
  for (const auto* text : {"1.5 gib", " 1.5GiB", "1.5GIB ", "\t1.5  GiB\n", "1536mib", "1.5g"}) {
    EXPECT_EQ(bytes(text), (int64_t{3} << 30) / 2) << text;
  }
}

TEST(Budget, WholeNumbersAreExactToTheLastByte) {
  EXPECT_EQ(bytes("9007199254740993"), 9007199254740993);  // a double has no such number
  EXPECT_EQ(bytes("9223372036854775807"), kMax);
  EXPECT_EQ(bytes("8388607TiB"), int64_t{8388607} << 40);
}

TEST(Budget, PercentIsAFractionOfThePlainPeak) {
  EXPECT_DOUBLE_EQ(budget("40%").fraction().value(), 0.4);
  EXPECT_DOUBLE_EQ(budget(" 12.5 %").fraction().value(), 0.125);
  EXPECT_DOUBLE_EQ(budget("100%").fraction().value(), 1);
  EXPECT_FALSE(budget("40%").bytes());
  EXPECT_FALSE(budget("40MB").fraction());
}

TEST(Budget, IntegersOfAnyTypeAreBytes) {
  EXPECT_EQ(budget(7).bytes(), 7);
  EXPECT_EQ(budget(7U).bytes(), 7);
  EXPECT_EQ(budget(size_t{1} << 40).bytes(), int64_t{1} << 40);
  EXPECT_EQ(budget(kMax).bytes(), kMax);
  EXPECT_EQ(budget(std::string("7")).bytes(), 7);
  EXPECT_THROW(budget(0), UsageError);
  EXPECT_THROW(budget(-1), UsageError);
  EXPECT_THROW(budget(std::numeric_limits<int64_t>::min()), UsageError);
  EXPECT_THROW(budget(std::numeric_limits<uint64_t>::max()), UsageError);
}

TEST(Budget, NothingAtAllIsRefused) {
  for (const auto* text : {"0", "0GiB", "0.0MB", "0%", "0.0001KiB", "-0"})
    EXPECT_THROW(budget(text), UsageError) << text;
  expect_refused("0", "no memory at all");
  expect_refused("0%", "no memory at all");
}

TEST(Budget, NegativeAmountsAreRefused) {
  expect_refused("-1GiB", "negative");
  expect_refused("-40%", "negative");
  expect_refused("-inf", "negative");
}

TEST(Budget, WhatIsNotFiniteIsRefused) {
  for (const auto* text : {"nan", "NaN%", "inf", "infinity", "infGiB"}) expect_refused(text, "not a finite amount");
}

TEST(Budget, NonsenseIsRefused) {
  expect_refused("", "no text");
  expect_refused("   ", "no text");
  for (const auto* text : {"lots", "GiB", "%", "+5", ".", "$5", "--5"}) expect_refused(text, "not an amount");
  for (const auto* text : {"1.5GiB please", "1,5GiB", "1_000", "1.5.5GiB", "1 2 GiB", "40%%", "40 % of it", "1EiB",
                           "3GiBs", "0x10", "1G i B"}) {
    expect_refused(text, "not a unit");
  }
  EXPECT_THROW(budget(std::string_view("1GiB\0", 5)), UsageError);
}

TEST(Budget, BitsAreRefused) {
  for (const auto* text : {"8Gb", "8Mb", "8Kb"}) expect_refused(text, "bits");
  EXPECT_EQ(bytes("8gb"), 8'000'000'000);
}

TEST(Budget, AMissingUnitIsNoticed) { expect_refused("1.5", "the unit seems to be missing"); }

TEST(Budget, MoreThanCanBeCountedIsRefused) {
  for (const auto* text : {"9223372036854775808", "8388608TiB", "1e19", "1e999", "1e999GiB", "10000000000000TiB",
                           "99999999999999999999999999999999"}) {
    expect_refused(text, "more bytes than can be counted");
  }
}

TEST(Budget, MoreThanThePlainPeakIsRefused) {
  expect_refused("100.1%", "more than the plain program's peak");
  expect_refused("250%", "more than the plain program's peak");
}

TEST(Budget, ANullPointerIsRefused) { EXPECT_THROW(budget(static_cast<const char*>(nullptr)), UsageError); }

TEST(Budget, BestEffortIsACopyThatSaysSo) {
  const Budget strict = budget("1.5GiB");
  const Budget best = strict.best_effort();
  EXPECT_FALSE(strict.is_best_effort());
  EXPECT_TRUE(best.is_best_effort());
  EXPECT_EQ(best.bytes(), strict.bytes());
  EXPECT_NE(best, strict);
}

TEST(Budget, TextIsAsAPersonWouldWriteIt) {
  EXPECT_EQ(budget(" 1.50 gib ").text(), "1.5GiB");
  EXPECT_EQ(budget("800MB").text(), "800MB");
  EXPECT_EQ(budget("1.25kB").text(), "1.25kB");
  EXPECT_EQ(budget(2048).text(), "2KiB");
  EXPECT_EQ(budget(123457).text(), "123457");
  EXPECT_EQ(budget("40 %").text(), "40%");
  EXPECT_EQ(budget("33.3%").text(), "33.3%");
}

TEST(Budget, TextReadBackIsTheSameBudget) {
  for (int64_t b = 1; b < kMax / 3; b = b * 3 + b % 7) EXPECT_EQ(budget(budget(b).text()), budget(b)) << b;
  for (int64_t b = 1; b < kMax / 5; b *= 5) EXPECT_EQ(budget(budget(b).text()), budget(b)) << b;
  for (int64_t b = 1; b < 100'000; ++b) EXPECT_EQ(budget(budget(b * 10'000'000).text()), budget(b * 10'000'000)) << b;
  for (int64_t b : {kMax, kMax - 1, kMax / 2 + 1}) EXPECT_EQ(budget(budget(b).text()), budget(b)) << b;
  EXPECT_EQ(budget(budget("33.3%").text()), budget("33.3%"));
}

}  // namespace
}  // namespace retrace::budget_test
