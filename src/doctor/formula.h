// Amounts as a reader can follow them: a formula is a product of numbers and symbols, "2*t*h", and is both what is
// computed and what is printed.
//
//   b batch   s sequence   t = b*s tokens   h hidden   a heads   k width of keys (and of values)   f width of the MLP
//   V vocabulary
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace retrace::doctor {

// Throw UsageError where the result does not fit into 63 bits.
int64_t times(int64_t a, int64_t b);
int64_t plus(int64_t a, int64_t b);

class Symbols {
 public:
  void set(char symbol, int64_t value) { values_[static_cast<unsigned char>(symbol)] = value; }
  int64_t operator[](char symbol) const;  // throws InternalError for one that was not set

 private:
  std::array<int64_t, 128> values_{};
};

// The value of a formula: exact, or as a double for amounts that need not be (FLOPs).
int64_t evaluate(std::string_view formula, const Symbols& symbols);
double evaluate_real(std::string_view formula, const Symbols& symbols);

// "2·t·h".
std::string pretty(std::string_view formula);

}  // namespace retrace::doctor
