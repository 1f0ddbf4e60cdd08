#include "store/encoded.h"

namespace retrace::store {
namespace {

class BFloat16 final : public EncodedKind {
  std::string name() const override { return "bfloat16"; }
  bool lossy() const override { return true; }
  std::optional<Encoding> find(const void*, size_t bytes, c10::ScalarType dtype) const override {
    return dtype == c10::kFloat ? bfloat16_encoding(bytes, c10::elementSize(dtype)) : std::nullopt;
  }
};

}  // namespace

const Kind& bfloat16_kind() {
  static const auto* const kind = new BFloat16;
  return *kind;
}

}  // namespace retrace::store
