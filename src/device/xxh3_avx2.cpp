// Compiled for AVX2 (src/CMakeLists.txt), so it includes nothing that others share.
#include "device/xxh3_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace retrace {

uint64_t xxh3_avx2(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

}  // namespace retrace
