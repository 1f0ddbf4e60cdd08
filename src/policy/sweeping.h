// When it is worth the time to look at all that a tape has for what nothing needs. The runtime's tape and a predicted
// step follow this rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace retrace {

class Sweeping {
 public:
  bool dirty = false;  // something was let go of that others may have been there for

  // Autograd saves what most operators make or read. Operators beyond that may be work that nobody will ask for.
  void op_recorded() { ++recorded_, ++beyond_saved_; }
  void saved() { --beyond_saved_; }
  void dropped() { ++beyond_saved_; }

  // Asked at every event. A backward lets go of values one by one, and counts free what they held. To sweep after each
  // would take the square of the tape's length, so in backward there is one sweep for as many events as there were ops.
  bool is_due(bool in_backward) {
    in_backward_ = in_backward ? std::max(in_backward_, surviving_) : 0;
    const bool worth = in_backward ? dirty && ++since_dirty_ > in_backward_ : dirty;
    return worth || beyond_saved_ > static_cast<int64_t>(std::max(kAtLeast, surviving_));
  }
  void begins() {
    dirty = false;
    since_dirty_ = 0;
    beyond_saved_ = 0;
  }
  void ended(size_t surviving_ops) { surviving_ = surviving_ops; }

  // The same for what is looked for when memory runs short.
  bool may_have_idle() const { return !looked_for_idle_ || recorded_ - idle_looked_for_at_ > surviving_ / 16; }
  void looks_for_idle() {
    looked_for_idle_ = true;
    idle_looked_for_at_ = recorded_;
  }

 private:
  static constexpr size_t kAtLeast = 4096;  // ops; below that a sweep gains nothing worth its time

  size_t recorded_ = 0;
  int64_t beyond_saved_ = 0;  // since the last sweep
  size_t since_dirty_ = 0;    // events in backward
  size_t surviving_ = 0;      // ops, of the last sweep
  size_t in_backward_ = 0;    // ops, as this backward began; 0: in forward
  bool looked_for_idle_ = false;
  size_t idle_looked_for_at_ = 0;  // ops recorded
};

}  // namespace retrace
