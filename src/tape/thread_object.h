// An object that each thread has of its own, made when it is first asked for. The pointer to it is found without a
// call, since some are asked for several times per operator. It takes 8 bytes of the static thread-local storage, of
// which a process has little to spare for libraries loaded later.
#pragma once

#include <utility>

namespace retrace {

template <class T>
class ThreadObject {
 public:
  static T& get() { return mine_ ? *mine_ : make(); }

 private:
  // The program's static objects are destroyed after the thread-local ones of the main thread: they find a new object.
  static T& make() {
    struct End {
      ~End() {
        while (mine_) delete std::exchange(mine_, nullptr);  // again if what is destroyed asks for one
      }
    };
    thread_local const End end;
    static_cast<void>(&end);
    return *(mine_ = new T);
  }

  [[gnu::tls_model("initial-exec")]] static inline thread_local T* mine_ = nullptr;
};

}  // namespace retrace
