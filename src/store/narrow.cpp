#include "store/encoded.h"

namespace retrace::store {
namespace {

class Narrow final : public EncodedKind {
  std::string name() const override { return "narrow"; }
  std::optional<Encoding> find(const void* data, size_t bytes, c10::ScalarType dtype) const override {
    if (c10::isFloatingType(dtype)) return std::nullopt;
    return find_narrow(data, bytes, c10::elementSize(dtype));
  }
};

}  // namespace

const Kind& narrow_kind() {
  static const auto* const kind = new Narrow;
  return *kind;
}

}  // namespace retrace::store
