// Which operators a backward runs, and how long they take.
#pragma once

#include <memory>

namespace retrace {

struct WatchedBackward;

// While one lives, the operators of the backward that has just begun on this thread are noted for the timeline of its step.
// One backward of a kind is watched: LibTorch asks observers at every operator, which tiny ones would feel.
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
