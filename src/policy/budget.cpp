#include <retrace/budget.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <retrace/errors.h>

namespace retrace {
namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr int64_t kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;
constexpr int64_t kK = 1000, kM = kK * kK, kG = kM * kK, kT = kG * kK;

// As we write them, in the order text() tries them.
constexpr std::array<Unit, 8> kUnits{
    {{"TiB", kTi}, {"TB", kT}, {"GiB", kGi}, {"GB", kG}, {"MiB", kMi}, {"MB", kM}, {"KiB", kKi}, {"kB", kK}}};
constexpr std::array<Unit, 8> kOtherUnits{
    {{"T", kTi}, {"G", kGi}, {"M", kMi}, {"K", kKi}, {"", 1}, {"B", 1}, {"byte", 1}, {"bytes", 1}}};

constexpr const char* kExamples = " Write an amount such as \"1.5GiB\", \"800MB\" or \"40%\".";

[[noreturn]] void refuse(std::string_view text, const std::string& what) {
  throw UsageError("[budget] '" + std::string(text) + "': " + what + kExamples);
}

[[noreturn]] void refuse_overflow(std::string_view text) {
  refuse(text, "more bytes than can be counted (2^63), so nothing would be limited.");
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

int64_t unit_bytes(std::string_view text, std::string_view unit) {
  if (unit.size() == 2 && unit[1] == 'b' && unit[0] != lower(unit[0])) {
    refuse(text, "'" + std::string(unit) + "' commonly stands for bits, so the amount is unclear.");
  }
  for (const auto& units : {kUnits, kOtherUnits}) {
    for (const Unit& u : units) {
      if (same_letters(u.name, unit)) return u.bytes;
    }
  }
  refuse(text, "'" + std::string(unit) + "' is not a unit of memory, so no budget can be set.");
}

// A number as written: exact if it is a whole number, so that large byte counts survive.
struct Number {
  long double approximate = 0;  // 64 bits of mantissa or more, so that 1.07GB is a whole number of bytes after rounding
  std::optional<int64_t> whole;
};

// Takes the number off the front of `rest`.
Number take_number(std::string_view text, std::string_view& rest) {
  Number number;
  const char* const begin = rest.data();
  const char* const end = begin + rest.size();
  const auto [after, error] = std::from_chars(begin, end, number.approximate);
  if (error == std::errc::invalid_argument) refuse(text, "this is not an amount of memory, so no budget can be set.");
  const std::string_view digits(begin, static_cast<size_t>(after - begin));
  if (digits.starts_with('-')) refuse(text, "a negative amount, in which no step could run.");
  // A number too small for a double is reported the same way, but nobody means one.
  if (error == std::errc::result_out_of_range) refuse_overflow(text);
  if (!std::isfinite(number.approximate)) refuse(text, "this is not a finite amount, so no budget can be set.");
  int64_t whole = 0;
  if (const auto exact = std::from_chars(begin, end, whole); exact.ec == std::errc() && exact.ptr == after) {
    number.whole = whole;
  }
  rest.remove_prefix(digits.size());
  return number;
}

int64_t count_bytes(std::string_view text, const Number& number, int64_t unit) {
  if (number.whole) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(*number.whole, unit, &bytes)) refuse_overflow(text);
    return bytes;
  }
  const long double bytes = std::round(number.approximate * static_cast<long double>(unit));
  if (bytes >= 0x1p63L) refuse_overflow(text);
  if (unit == 1 && bytes != number.approximate) refuse(text, "a fraction of a byte: the unit seems to be missing.");
  return static_cast<int64_t>(bytes);
}

double checked_percent(std::string_view text, double percent) {
  if (percent / 100 <= 0) refuse(text, "no memory at all, in which no step could run.");
  if (percent > 100) refuse(text, "more than the plain program's peak, so nothing would be limited.");
  return percent;
}

std::string shortest(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

// The amount in hundredths of the unit, if that is exact and at least one unit.
std::optional<int64_t> hundredths(int64_t bytes, int64_t unit) {
  if (bytes < unit) return std::nullopt;
  const int64_t rest = bytes % unit;  // below 2^40: times 100 fits
  if (rest * 100 % unit != 0) return std::nullopt;
  int64_t result = 0;
  if (__builtin_mul_overflow(bytes / unit, int64_t{100}, &result)) return std::nullopt;
  return result + rest * 100 / unit;
}

std::string decimal(int64_t in_hundredths) {
  std::string text = std::to_string(in_hundredths / 100);
  if (const auto part = static_cast<int>(in_hundredths % 100); part != 0) {
    text += {'.', static_cast<char>('0' + part / 10)};
    if (part % 10 != 0) text += static_cast<char>('0' + part % 10);
  }
  return text;
}

}  // namespace

Budget Budget::best_effort() const {
  Budget copy = *this;
  copy.best_effort_ = true;
  return copy;
}

Budget Budget::allow_bfloat16() const {
  Budget copy = *this;
  copy.bfloat16_ = true;
  return copy;
}

std::optional<int64_t> Budget::bytes() const { return bytes_ > 0 ? std::optional(bytes_) : std::nullopt; }
std::optional<double> Budget::fraction() const { return percent_ > 0 ? std::optional(percent_ / 100) : std::nullopt; }

std::string Budget::text() const {
  if (percent_ > 0) return shortest(percent_) + "%";
  for (const Unit& unit : kUnits) {
    if (const auto amount = hundredths(bytes_, unit.bytes)) return decimal(*amount) + std::string(unit.name);
  }
  return std::to_string(bytes_);
}

Budget budget(std::string_view text) {
  std::string_view rest = trimmed(text);
  if (rest.empty()) refuse(text, "there is no text, so no budget can be set.");
  const Number number = take_number(text, rest);
  rest = trimmed(rest);
  Budget result;
  if (rest == "%") {
    result.percent_ = checked_percent(text, static_cast<double>(number.approximate));
    return result;
  }
  result.bytes_ = count_bytes(text, number, unit_bytes(text, rest));
  if (result.bytes_ == 0) refuse(text, "no memory at all, in which no step could run.");
  return result;
}

Budget budget(const char* text) {
  if (text == nullptr) refuse("", "the text is a null pointer, so no budget can be set.");
  return budget(std::string_view(text));
}

namespace detail {

Budget budget_of(int64_t bytes) {
  if (bytes < 0) refuse(std::to_string(bytes), "a negative amount, in which no step could run.");
  if (bytes == 0) refuse("0", "no memory at all, in which no step could run.");
  Budget result;
  result.bytes_ = bytes;
  return result;
}

Budget budget_of(uint64_t bytes) {
  if (!std::in_range<int64_t>(bytes)) refuse_overflow(std::to_string(bytes));
  return budget_of(static_cast<int64_t>(bytes));
}

}  // namespace detail
}  // namespace retrace
