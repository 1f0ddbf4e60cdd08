// Random numbers that are the same on every machine and with every standard library: a program is its seed.
#pragma once

#include <cstdint>
#include <vector>

namespace retrace::random {

// SplitMix64: neighbouring seeds give unrelated streams, so program k may simply use seed S + k.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567ull) { next(); }

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }  // both ends included
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }             // [0, 1)
  double real(double low, double high) { return low + (high - low) * unit(); }
  bool chance(double probability) { return unit() < probability; }

  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace retrace::random
