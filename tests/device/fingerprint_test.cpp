#include "device/device.h"

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <retrace/memory.h>

namespace retrace::test::fingerprints {

using torch::Tensor;

// Views of all kinds over a storage of 4 x 6 x 5 floats.
std::vector<Tensor> views_of(const Tensor& base) {
  return {base,
          base.permute({2, 0, 1}),
          base.narrow(1, 1, 3),
          base.slice(2, 0, 5, 2),
          base.slice(0, 1, 4, 2).slice(1, 0, 6, 3).transpose(0, 2),
          base.select(1, 2),
          base.select(0, 1).select(0, 2).select(0, 3),
          base.narrow(2, 1, 1).expand({4, 6, 7}),
          base.flatten().as_strided({5, 4}, {3, 2}, 1)};
}

TEST(Fingerprint, SeesEveryByteOfItsViewAndNoOther) {
  const auto base = torch::rand({4, 6, 5});
  const auto inside = torch::zeros({4, 6, 5});
  for (size_t k = 0; k < views_of(base).size(); ++k) {
    SCOPED_TRACE("view " + std::to_string(k));
    const Tensor view = views_of(base)[k];
    inside.zero_();
    views_of(inside)[k].fill_(1);
    const uint64_t before = fingerprint(view);
    for (int64_t i = 0; i < base.numel(); ++i) {
      auto* const bytes = static_cast<unsigned char*>(base.data_ptr()) + 4 * i + i % 4;
      *bytes ^= 1;
      EXPECT_EQ(fingerprint(view) != before, inside.data_ptr<float>()[i] == 1) << "element " << i;
      *bytes ^= 1;
    }
    EXPECT_EQ(fingerprint(view), before);
  }
}

TEST(Fingerprint, OfManySmallRowsSeesEachOfThem) {
  const auto base = torch::zeros({3000, 3});
  const Tensor column = base.select(1, 1), pairs = base.narrow(1, 0, 2);
  const uint64_t of_column = fingerprint(column), of_pairs = fingerprint(pairs);
  for (int64_t row = 0; row < base.size(0); ++row) {
    float& element = base.data_ptr<float>()[3 * row + 1];
    element = 1;
    EXPECT_NE(fingerprint(column), of_column) << "row " << row;
    EXPECT_NE(fingerprint(pairs), of_pairs) << "row " << row;
    element = 0;
  }
}

TEST(Fingerprint, TakesNoTensorMemory) {
  const auto base = torch::rand({4, 6, 5}), numbers = torch::view_as_complex(torch::rand({4, 5, 2}));
  std::vector<Tensor> views = views_of(base);
  views.push_back(numbers.conj().slice(1, 0, 5, 2));
  views.push_back(torch::imag(numbers.conj()));
  const int64_t live = memory::live_bytes();
  memory::reset_peak();
  for (const Tensor& view : views) fingerprint(view);
  EXPECT_EQ(memory::peak_bytes(), live);
}

}  // namespace retrace::test::fingerprints
