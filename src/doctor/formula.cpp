#include "doctor/formula.h"

#include <charconv>

#include <retrace/errors.h>

namespace retrace::doctor {
namespace {

[[noreturn]] void refuse_overflow() {
  throw UsageError(
      "[doctor] the description needs more bytes than can be counted (2^63), so no figure would mean anything. Look "
      "for "
      "a number with too many digits.");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Calls `factor` with every factor of the formula.
template <class Factor>
void for_each_factor(std::string_view formula, const Symbols& symbols, const Factor& factor) {
  while (!formula.empty()) {
    const std::string_view part = formula.substr(0, formula.find('*'));
    formula.remove_prefix(part.size() < formula.size() ? part.size() + 1 : part.size());
    int64_t number = 0;
    if (!part.empty() && is_digit(part.front())) {
      std::from_chars(part.data(), part.data() + part.size(), number);
    } else {
      number = symbols[part.empty() ? '\0' : part.front()];
    }
    factor(number);
  }
}

}  // namespace

int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse_overflow();
  return result;
}

int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) refuse_overflow();
  return result;
}

int64_t Symbols::operator[](char symbol) const {
  const int64_t value = static_cast<unsigned char>(symbol) < values_.size() ? values_[static_cast<size_t>(symbol)] : 0;
  if (value <= 0)
    throw InternalError(std::string("[doctor] a formula uses the symbol '") + symbol + "', which has no value.");
  return value;
}

int64_t evaluate(std::string_view formula, const Symbols& symbols) {
  int64_t result = 1;
  for_each_factor(formula, symbols, [&](int64_t factor) { result = times(result, factor); });
  return result;
}

double evaluate_real(std::string_view formula, const Symbols& symbols) {
  double result = 1;
  for_each_factor(formula, symbols, [&](int64_t factor) { result *= static_cast<double>(factor); });
  return result;
}

std::string pretty(std::string_view formula) {
  std::string text;
  for (const char c : formula) text += c == '*' ? std::string("·") : std::string(1, c);
  return text;
}

}  // namespace retrace::doctor
