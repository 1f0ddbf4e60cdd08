// Simulates choices that differ in little from those before, in time that depends on the difference.
//
// A whole run remembers some moments of backward, and when each value was first touched. Another choice for a value
// changes nothing before that but what is live, so a run for it begins at the last moment before; and once the value is
// no longer needed and all is as it was at one of the moments, the rest is known.
#pragma once

#include <vector>

#include "plan/machine.h"

namespace retrace::plan {

class Near {
 public:
  explicit Near(const Graph& graph);

  Outcome run(const Choices& choices, const Machine::Limits& limits);
  Outcome settle(const Choices& choices, const Machine::Limits& limits);  // the same, and the next ones are near these

 private:
  Outcome run_whole(const Choices& choices, const Machine::Limits& limits);
  bool is_near(const Choices& choices);
  Moment* last_untouched(const Choices& choices);
  void change(const Moment& moment, const Choices& choices, const Machine::Limits& limits);
  Moment* play_until_same(Moment* moment, bool remember);
  bool same_as(const Moment& moment) const;
  Moment* end() { return moments_.data() + moments_known_; }

  Machine machine_;
  size_t stride_ = 0;  // events between moments

  // Of the choices that were settled on.
  Choices choices_;
  Outcome outcome_;
  Peaks peaks_;
  std::vector<Moment> moments_;
  size_t moments_known_ = 0;

  std::vector<ValueId> changed_;  // where the new choices differ
};

}  // namespace retrace::plan
