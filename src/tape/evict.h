// Which value to let go of when memory runs short: the one with the least seconds to rebuild per byte freed and per time it
// is likely to be away. Rebuilding counts what else is gone and would be needed, and what is gone and needs it. In forward
// the time is that since it was last used; in backward, which asks for the newest first, that until its turn comes. A
// heuristic (after Dynamic Tensor Rematerialization): steps that come back follow a plan instead.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tape/op.h"

namespace retrace {

class Tape;

struct EvictionCandidate {
  ValueId value = kNone;  // none: nothing can go
  double score = 0;       // seconds per byte and time it would be away
};

// To look at all a tape has takes long, and memory that is short stays so for a while: the best few are remembered.
struct EvictionRanking {
  std::vector<EvictionCandidate> best;  // last
  int64_t made_at = 0;                  // the tape's clock
};

// Of what a tape holds or has rebuilt.
class Eviction {
 public:
  explicit Eviction(Tape& tape) : tape_(tape) {}

  using Candidate = EvictionCandidate;
  Candidate cheapest();
  int64_t evict(ValueId value);  // if it can go; returns the bytes freed

 private:
  Candidate best_ranked();
  template <class MayGo>
  void rank(MayGo may_go);
  std::optional<Candidate> priced(ValueId id);
  bool is_expendable(ValueId id) const;
  bool is_at_hand(ValueId id);
  double replay_seconds(const Op& op, ValueId wanted);
  std::optional<double> seconds_to_rebuild(ValueId id);
  int64_t evictable_bytes(ValueId id) const;
  double time_away(ValueId id);
  OpId next_use(ValueId id, OpId at);
  void note_gone(ValueId id);
  Candidate any_evictable();
  void hold_roots_of(ValueId id);

  Tape& tape_;
};

}  // namespace retrace
