// Memory for the blocks of tensors.
//
// LibTorch asks for aligned memory, which glibc cuts out of a larger piece. What is left of that goes to whoever wants a few bytes
// next. A plain program soon lets go of those, and the piece is whole again; a tape does not, and then the piece is too
// small for a block like the one it was made for: a step of many operators took memory for each of them that nobody counted.
// So blocks are pieces of their own here, aligned by us. Large ones wait a while for somebody who wants as much, since to give
// memory back to the system and have it again takes longer than many an operator.
#pragma once

#include <cstddef>

namespace retrace::memory {

inline constexpr size_t kBlockAlignment = 64;  // LibTorch's

void* allocate_block(size_t bytes);  // throws c10::Error if there is no memory
void deallocate_block(void* block, size_t bytes);

}  // namespace retrace::memory
