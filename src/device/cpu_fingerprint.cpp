#include "device/cpu_fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/xxh3_avx2.h"

namespace retrace {
namespace {

uint64_t hash_of(const void* bytes, size_t size) {
#ifdef RETRACE_XXH3_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return xxh3_avx2(bytes, size);
#endif
  return XXH3_64bits(bytes, size);
}

struct Dimension {
  int64_t size, stride;
};

// The dimensions from the longest stride to the shortest, merged into as few as describe the same elements. An expanded
// dimension adds no elements, so it is left out.
c10::SmallVector<Dimension, 4> dimensions_of(const at::Tensor& t) {
  c10::SmallVector<Dimension, 4> all, merged;
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (t.size(i) != 1 && t.stride(i) != 0) all.push_back({t.size(i), t.stride(i)});
  }
  std::sort(all.begin(), all.end(), [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  for (const Dimension& d : all) {
    if (!merged.empty() && merged.back().stride == d.size * d.stride) {
      merged.back() = {merged.back().size * d.size, d.stride};
    } else {
      merged.push_back(d);
    }
  }
  return merged;
}

// A hash of what add() is given, small pieces through a buffer. It allocates no tensor memory: looking at content must
// not break a budget.
class Hash {
 public:
  explicit Hash(size_t item) : item_(item) { XXH3_64bits_reset(&state_); }

  void add(const char* from, int64_t count, int64_t stride) {
    if (stride == 1) {
      flush();
      XXH3_64bits_update(&state_, from, static_cast<size_t>(count) * item_);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (used_ + item_ > sizeof buffer_) flush();
      std::memcpy(buffer_ + used_, from + i * stride * static_cast<int64_t>(item_), item_);
      used_ += item_;
    }
  }

  uint64_t digest() {
    flush();
    return XXH3_64bits_digest(&state_);
  }

 private:
  void flush() { XXH3_64bits_update(&state_, buffer_, std::exchange(used_, 0)); }

  const size_t item_;
  size_t used_ = 0;
  XXH3_state_t state_;
  char buffer_[4096];
};

}  // namespace

// Whether it is conjugated or negated is a flag, not bytes.
uint64_t cpu_fingerprint(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  const auto item = static_cast<int64_t>(c10::elementSize(tensor.scalar_type()));
  const auto* const first =
      static_cast<const char*>(tensor.storage().data_ptr().get()) + tensor.storage_offset() * item;
  auto dimensions = dimensions_of(tensor);
  const Dimension row = dimensions.empty() ? Dimension{1, 1} : dimensions.pop_back_val();
  if (dimensions.empty() && row.stride == 1) return hash_of(first, static_cast<size_t>(row.size * item));
  Hash hash(static_cast<size_t>(item));
  c10::SmallVector<int64_t, 4> index(dimensions.size());
  for (int64_t at = 0;;) {
    hash.add(first + at * item, row.size, row.stride);
    size_t d = dimensions.size();
    while (d > 0 && ++index[d - 1] == dimensions[d - 1].size) {
      --d;
      at -= (dimensions[d].size - 1) * dimensions[d].stride;
      index[d] = 0;
    }
    if (d == 0) return hash.digest();
    at += dimensions[d - 1].stride;
  }
}

uint64_t cpu_fingerprint(const c10::Storage& storage) { return cpu_fingerprint(storage, 0, storage.nbytes()); }

uint64_t cpu_fingerprint(const c10::Storage& storage, size_t begin, size_t end) {
  const auto* const bytes = static_cast<const char*>(storage.data_ptr().get());
  return bytes ? hash_of(bytes + begin, end - begin) : 0;
}

uint64_t cpu_sample(const c10::Storage& storage) {
  constexpr size_t kWholeBytes = 16 * 1024;
  constexpr size_t kPieces = 64, kPieceBytes = 64;  // cache lines
  const auto* const bytes = static_cast<const char*>(storage.data_ptr().get());
  const size_t size = bytes ? storage.nbytes() : 0;
  if (size <= kWholeBytes) return hash_of(bytes ? bytes : "", size);
  // Each begins where a cache line does, if the storage does: a piece that lies in two lines takes twice as long.
  char pieces[kPieces * kPieceBytes];
  for (size_t i = 0; i + 1 < kPieces; ++i) {
    const size_t at = (size - kPieceBytes) * i / (kPieces - 1) & ~(kPieceBytes - 1);
    std::memcpy(pieces + i * kPieceBytes, bytes + at, kPieceBytes);
  }
  std::memcpy(pieces + sizeof pieces - kPieceBytes, bytes + size - kPieceBytes, kPieceBytes);
  return hash_of(pieces, sizeof pieces);
}

}  // namespace retrace
