// Memory for objects of which a tape makes many and frees in any order: each thread uses again what it has freed.
// malloc would merge freed blocks with their neighbours, and split them for the next step.
#pragma once

#include <cstddef>
#include <new>

namespace retrace {

template <class T>
class Recycled {
 public:
  static void* operator new(size_t bytes) {
    if (bytes != sizeof(T) || !blocks_.first) return ::operator new(bytes);
    Block* const block = blocks_.first;
    blocks_.first = block->next;
    --blocks_.count;
    return block;
  }
  static void operator delete(void* memory, size_t bytes) {
    if (bytes != sizeof(T) || blocks_.count >= blocks_.most) return ::operator delete(memory);
    if (!blocks_.first) free_at_thread_end();
    blocks_.first = new (memory) Block{blocks_.first};
    ++blocks_.count;
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
  };

  static void free_at_thread_end() {
    struct End {
      // Objects that die after this thread's own are freed at once.
      ~End() {
        blocks_.most = 0;
        while (blocks_.first) {
          Block* const block = blocks_.first;
          blocks_.first = block->next;
          ::operator delete(block);
        }
      }
    };
    thread_local const End end;
    static_cast<void>(&end);
  }

  // Found without a call, see tape/thread_object.h.
  [[gnu::tls_model("initial-exec")]] static inline thread_local Blocks blocks_;
};

}  // namespace retrace
