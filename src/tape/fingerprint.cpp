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

uint64_t fingerprint(const c10::Storage& storage) {
  const void* const bytes = storage.data_ptr().get();
  return bytes ? XXH3_64bits(bytes, storage.nbytes()) : 0;
}

uint64_t sample(const c10::Storage& storage) {
  constexpr size_t kPieces = 16, kPieceBytes = 1024;
  const auto* const bytes = static_cast<const char*>(storage.data_ptr().get());
  const size_t size = bytes ? storage.nbytes() : 0;
  if (size <= kPieces * kPieceBytes) return XXH3_64bits(bytes ? bytes : "", size);
  uint64_t hash = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    hash = XXH3_64bits_withSeed(bytes + (size - kPieceBytes) / (kPieces - 1) * i, kPieceBytes, hash);
  }
  return hash;
}

}  // namespace retrace
