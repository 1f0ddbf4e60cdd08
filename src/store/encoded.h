// The kinds that hold content in fewer bytes of the same memory (encode.h).
#pragma once

#include "store/encode.h"
#include "store/kind.h"

namespace retrace::store {

class EncodedKind : public Kind {
 public:
  std::unique_ptr<const Stored> put(const c10::Storage& content, c10::ScalarType dtype) const final;
  std::optional<plan::Way> measure(const c10::Storage& content, c10::ScalarType dtype) const final;

 private:
  virtual std::optional<Encoding> find(const void* data, size_t bytes, c10::ScalarType dtype) const = 0;
  std::optional<Encoding> worthwhile(const c10::Storage& content, c10::ScalarType dtype) const;
};

const Kind& bits_kind();      // two values: one bit each
const Kind& narrow_kind();    // integers of a small range
const Kind& bfloat16_kind();  // floats, with loss

}  // namespace retrace::store
