// Memory for the blocks of tensors.
//
// LibTorch asks malloc for aligned memory, which glibc cuts out of a larger piece; it gives what is left to whoever
// next wants a few bytes. A plain program soon frees those few bytes, and the piece is whole again. A tape keeps them,
// and then the piece is too small for the next block of the same size: a step of many operators took memory for each of
// them that nobody counted. So blocks here are pieces of their own, aligned by us.
//
// Large blocks that were freed wait for somebody who wants as many bytes, because giving memory back to the system and
// getting it again takes longer than many operators. Those that wait and those in use are together at most an eighth,
// and at most 32 MiB, more than were in use at once lately.
#pragma once

#include <cstddef>

namespace retrace::memory {

inline constexpr size_t kBlockAlignment = 64;  // LibTorch's

void* allocate_block(size_t bytes);  // throws c10::Error if there is no memory
void deallocate_block(void* block, size_t bytes);

}  // namespace retrace::memory
