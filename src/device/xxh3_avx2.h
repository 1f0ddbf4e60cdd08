// XXH3 for CPUs that have AVX2: the same hash, more than twice as fast. Only there where the compiler can target AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace retrace {

uint64_t xxh3_avx2(const void* bytes, size_t size);

}  // namespace retrace
