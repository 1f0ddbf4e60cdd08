// What to let go of when memory runs short: whatever takes the least seconds per byte freed. A value can be forgotten, which takes
// what else is gone and would be needed to rebuild it, or put away by a kind that gives back every bit (store/kind.h).
//
// Time counts too: in forward, that since it was last used; in backward, that until it is wanted, weakly for what is held since
// forward and strongly for what was rebuilt, which would be rebuilt once more. A heuristic (after Dynamic Tensor
// Rematerialization), its powers chosen on tapes of our models and examples: steps that come back follow a plan instead.
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

// What a tape remembers of it.
struct EvictionMemory {
  std::vector<ValueId> there;  // all values that are held or rebuilt, and some that were: each once
  eviction::Ranking<EvictionCandidate> ranking;
  struct Way {
    const store::Kind* kind = nullptr;  // none: it cannot be put away
    int64_t bytes = 0;                  // that are left
    double seconds = 0;                 // to store and to load
  };
  std::unordered_map<ValueId, Way> ways;  // of what has been looked at
};

// Of what a tape holds or has rebuilt.
class Eviction {
 public:
  // To put something away takes memory first: at most `spare_bytes`.
  explicit Eviction(Tape& tape, int64_t spare_bytes = 0) : tape_(tape), spare_bytes_(spare_bytes) {}

  using Candidate = EvictionCandidate;
  Candidate cheapest();
  // False if it freed nothing: there is one candidate less, since the value was not what its operator had left, or the
  // kind could not hold it, or another thread has let go of it since it was found.
  bool evict(const Candidate& candidate);
  bool forget(ValueId value);  // if it can go

 private:
  struct Evicting;

  void update_there();
  bool can_go(ValueId id);
  Candidate any_evictable();
  bool put_away(ValueId id, const store::Kind& kind);
  void hold_roots_of(ValueId id);

  Tape& tape_;
  const int64_t spare_bytes_;
};

}  // namespace retrace
