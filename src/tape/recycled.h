// Memory for objects of which a tape makes many and lets go of in any order: each thread uses again what it had. malloc would
// merge what is freed with its neighbours, and split it for the next step.
#pragma once

#include <cstddef>
#include <new>

namespace retrace {

template <class T>
class Recycled {
 public:
  static void* operator new(size_t bytes) {
    Blocks& blocks = mine();
    if (bytes != sizeof(T) || !blocks.first) return ::operator new(bytes);
    Block* const block = blocks.first;
    blocks.first = block->next;
    --blocks.count;
    return block;
  }
  static void operator delete(void* memory, size_t bytes) {
    Blocks& blocks = mine();
    if (bytes != sizeof(T) || blocks.count >= blocks.most) return ::operator delete(memory);
    blocks.first = new (memory) Block{blocks.first};
    ++blocks.count;
  }

 private:
  struct Block {
    Block* next;
  };
  struct Blocks {
    Block* first = nullptr;
    size_t count = 0;
#ifdef __SANITIZE_ADDRESS__
    size_t most = 0;  // so that it sees who uses what is gone
#else
    size_t most = (size_t{8} << 20) / sizeof(T);  // 8 MiB
#endif

    // What dies after this thread's own objects is freed at once.
    ~Blocks() {
      most = 0;
      while (first) {
        Block* const block = first;
        first = block->next;
        ::operator delete(block);
      }
    }
  };
  static Blocks& mine() {
    thread_local Blocks blocks;
    return blocks;
  }
};

}  // namespace retrace
