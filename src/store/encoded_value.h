// A storage's content held in fewer bytes: without loss if it can be, in bfloat16 if that was asked for.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <memory>
#include <optional>

#include "plan/graph/graph.h"
#include "store/encode.h"

namespace retrace {

class EncodedValue {
 public:
  // Null if the content, taken as elements of `dtype`, is none that can be encoded.
  static std::shared_ptr<const EncodedValue> make(const c10::Storage& storage, c10::ScalarType dtype, bool bfloat16);

  // What encoding it would save and cost, measured on the content itself; none if it cannot be.
  static std::optional<plan::Way> measure(const c10::Storage& storage, c10::ScalarType dtype, bool bfloat16);

  int64_t bytes() const { return static_cast<int64_t>(encoded_.nbytes()); }
  const c10::Storage& storage() const { return encoded_; }
  c10::Storage decode() const;

 private:
  EncodedValue(store::Encoding encoding, size_t plain_bytes) : encoding_(encoding), plain_bytes_(plain_bytes) {}

  store::Encoding encoding_;
  size_t plain_bytes_;
  c10::Storage encoded_;
};

}  // namespace retrace
