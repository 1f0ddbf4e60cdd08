#include "tape/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tape/geometry.h"

namespace retrace {

uint64_t fingerprint(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  Geometry g = Geometry::of(tensor);
  g.conjugated = g.negated = false;  // flags, not bytes
  auto [begin, end] = g.dense_byte_range();
  at::Tensor elements = g.over(tensor.storage());
  if (begin == end) {
    elements = elements.contiguous();
    begin = 0;
    end = static_cast<int64_t>(elements.nbytes());
  }
  const auto* const bytes = static_cast<const char*>(elements.storage().data_ptr().get());
  return XXH3_64bits(bytes + begin, static_cast<size_t>(end - begin));
}

}  // namespace retrace
