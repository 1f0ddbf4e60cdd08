// Leaves: parameters, inputs, buffers, indices and masks, in several types and memory layouts.
#include <algorithm>

#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

enum Layout : int64_t { kContiguous, kTransposed, kSliced, kReversedStrides };

const torch::ScalarType kTypes[] = {torch::kFloat,        torch::kDouble, torch::kBFloat16,
                                    torch::kComplexFloat, torch::kLong,   torch::kBool};

// Large leaves repeat themselves: drawing 16,384 numbers at every run would take most of the time.
constexpr int64_t kMostDrawn = 1021;

template <class T, class Next>
void fill(const Tensor& t, Next next) {
  auto* data = static_cast<T*>(t.data_ptr());
  for (int64_t k = 0; k < std::min(t.numel(), kMostDrawn); ++k) data[k] = static_cast<T>(next());
  for (int64_t k = kMostDrawn; k < t.numel(); k += kMostDrawn)
    std::copy_n(data, std::min(kMostDrawn, t.numel() - k), data + k);
}

void fill_leaf(const Tensor& t, uint64_t seed) {
  Dice dice(seed);
  const auto real = [&] { return static_cast<float>(dice.real(-1, 1)); };
  switch (t.scalar_type()) {
    case torch::kFloat:
      fill<float>(t, real);
      break;
    case torch::kDouble:
      fill<double>(t, [&] { return dice.real(-1, 1); });
      break;
    case torch::kBFloat16:
      fill<c10::BFloat16>(t, real);
      break;
    case torch::kComplexFloat:
      fill<c10::complex<float>>(t, [&] {
        const float re = real();
        return c10::complex<float>(re, real());
      });
      break;
    case torch::kLong:
      fill<int64_t>(t, [&] { return dice.below(8); });
      break;
    default:
      fill<bool>(t, [&] { return dice.chance(0.5); });
      break;
  }
}

}  // namespace

Tensor make_leaf(const Statement& leaf) {
  const auto type = kTypes[leaf.ints.at(0)];
  std::vector<int64_t> sizes(leaf.ints.begin() + 4, leaf.ints.end());
  const int64_t layout = sizes.empty() ? kContiguous : leaf.ints.at(1);
  if (layout == kTransposed) std::swap(sizes.front(), sizes.back());
  if (layout == kSliced) sizes.front() *= 2;
  if (layout == kReversedStrides) std::reverse(sizes.begin(), sizes.end());
  Tensor t = torch::empty(sizes, type);
  fill_leaf(t, static_cast<uint64_t>(leaf.ints.at(3)));
  if (layout == kTransposed) t = t.transpose(0, -1);
  if (layout == kSliced) t = t.slice(0, 0, t.size(0), 2);
  if (layout == kReversedStrides)
    t = t.permute([&] {
      std::vector<int64_t> order(sizes.size());
      for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
      return order;
    }());
  return leaf.ints.at(2) != 0 ? t.requires_grad_() : t;
}

}  // namespace retrace::random
