// What to let go of when memory runs short: whatever takes the fewest seconds per byte freed. A value can be forgotten:
// then it must be rebuilt, and with it whatever else is gone that it is made from. Or it can be put away by a kind that
// gives back every bit (store/kind.h).
//
// Time counts too. In forward, a value is cheaper the longer it was not used. In backward, the longer it is not wanted:
// weakly for what is held since forward, strongly for what was rebuilt, which would have to be rebuilt once more. A
// heuristic (after Dynamic Tensor Rematerialization); its powers were chosen on tapes of our models and examples. Steps
// that come back follow a plan instead.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plan/simulate/eviction_rules.h"
#include "store/kind.h"
#include "tape/op.h"

namespace retrace {

class Tape;

struct EvictionCandidate {
  ValueId value = kNone;              // none: nothing can go
  double score = 0;                   // seconds per byte and time it would be away
  const store::Kind* kind = nullptr;  // that puts it away; null: it is forgotten
};

// What a tape remembers from one eviction to the next.
struct EvictionMemory {
  eviction::Ranking<EvictionCandidate> ranking;
  struct Way {
    const store::Kind* kind = nullptr;  // none: it cannot be put away
    int64_t bytes = 0;                  // that it then takes
    double seconds = 0;                 // to store and to load
  };
  std::unordered_map<ValueId, Way> ways;  // the best way of each value that was looked at
};

// Evicts what a tape holds or has rebuilt.
class Eviction {
 public:
  // To put something away takes memory first: at most `spare_bytes`.
  explicit Eviction(Tape& tape, int64_t spare_bytes = 0) : tape_(tape), spare_bytes_(spare_bytes) {}

  using Candidate = EvictionCandidate;
  Candidate cheapest();
  // False if it freed nothing, because the value was not what its operator had left, or the kind could not hold it, or
  // another thread has let go of it since it was found. Then there is one candidate less.
  bool evict(const Candidate& candidate);
  bool forget(ValueId value);  // if it can go

 private:
  struct Evicting;

  bool can_go(ValueId id);
  Candidate any_evictable();
  bool put_away(ValueId id, const store::Kind& kind);
  void hold_roots_of(ValueId id);

  Tape& tape_;
  const int64_t spare_bytes_;
};

}  // namespace retrace
