// Which operators a backward runs, and how long they take.
#pragma once

#include <memory>

namespace retrace {

struct WatchedBackward;

// While one lives, the operators of the backward that has just begun on this thread are noted for its step's timeline.
// Only one backward of a kind is watched: LibTorch calls observers at every operator, which costs tiny operators much
// of their time.
class BackwardWatch {
 public:
  BackwardWatch();
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

 private:
  struct Depth {  // of backwards on this thread, one inside the other
    Depth();
    ~Depth();
  };

  Depth depth_;
  std::unique_ptr<WatchedBackward> watched_;  // null: it is not watched
};

}  // namespace retrace
