// Where to cut a long rebuild into segments: at moments at which little must be held to go on.
//
// The frontier of a moment is what was made before it and is read after it. A rebuild that holds the frontiers of some
// moments, and of the rest only what its last segment makes, can make every earlier segment again from the frontier
// before it. Its peak is then that of the fullest segment: the frontiers before it, all that backward asks of it, and
// backward's own gradients.
#pragma once

#include <cstdint>
#include <vector>

namespace retrace {

// One value of a rebuild. Operators are counted from 0, in their order; the number of operators stands for one that
// runs later, outside the rebuild.
struct Lifetime {
  int32_t made = 0;        // by this operator
  int32_t last_read = 0;   // by this operator
  int32_t held_until = 0;  // the last operator that reads it, or something that is made again from it
  int64_t bytes = 0;
  bool saved = false;        // backward asks for it, so it stays in memory once its segment has been made
  bool made_again = false;   // never held in a frontier: what makes it is smaller, and is held in its place
  bool overwritten = false;  // by an operator in place: where it is held, that needs a copy
};

// A gradient that is in memory while backward goes from the operator that read a value, or a part of it, to its maker.
struct Gradient {
  int32_t made = 0;
  int32_t read = 0;
  int64_t bytes = 0;
};

class Frontiers {
 public:
  Frontiers(int32_t operators, const std::vector<Lifetime>& values, const std::vector<Gradient>& gradients);

  // A moment is named by the last operator before it. What rebuilding in these segments takes at its fullest.
  int64_t peak_bytes(const std::vector<int32_t>& moments) const;

  // The most that is saved between two neighbouring moments.
  int64_t largest_saved_bytes(const std::vector<int32_t>& moments) const;

  // Moments with a small peak: the best choice among some candidates. Those lie one in each stretch of about the same
  // saved bytes, where least is held. That these are good candidates is a heuristic.
  std::vector<int32_t> moments() const;

 private:
  class Segment;
  class Search;
  Segment segment_after(int32_t moment) const;
  std::vector<int32_t> candidates() const;
  int32_t operators() const { return static_cast<int32_t>(made_at_.size()); }

  // By operator.
  std::vector<std::vector<Lifetime>> made_at_;
  std::vector<std::vector<Lifetime>> last_read_at_;
  std::vector<std::vector<Lifetime>> held_until_;
  std::vector<int64_t> again_bytes_;     // what is read after it, and made again if a segment begins there
  std::vector<int64_t> gradient_bytes_;  // when backward is about to go through it
};

}  // namespace retrace
