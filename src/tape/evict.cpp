#include "tape/evict.h"

#include <algorithm>
#include <utility>

#include "tape/budgeted_step.h"
#include "tape/tape.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

// Of more values than this, a sample is looked at: the best of so many is good enough, and takes little time to find.
constexpr size_t kMostCandidates = 512;

bool is_at_hand(const Tape& tape, ValueId id) {
  const Value& v = tape.value(id);
  if (v.held || v.rebuilt) return true;
  if (!tape.is_living(id)) return false;
  // After its step: a weight may have been updated in a way that LibTorch does not count.
  return !tape.closed() || is_as_marked(v, tape.living_storage(id));
}

int64_t evictable_bytes_of(const Value& v) {
  if (v.uses > 0 || v.producer == kNone) return 0;
  if (v.rebuilt) return v.rebuilt.use_count() > 1 ? 0 : v.bytes;
  if (v.held.is_stored()) return v.kind && v.kind->lossy() ? 0 : v.held.bytes();
  return !v.held || v.held.is_copy() || v.held.is_shared() ? 0 : v.bytes;
}

// The best way to put a value away. If this step looks for the ways of all values, the timeline knows them.
EvictionMemory::Way look_for_way(Tape& tape, ValueId id) {
  EvictionMemory::Way best;
  if (!tape.budgeted_step) return best;
  const Value& v = tape.value(id);
  const auto cost = [&](const EvictionMemory::Way& way) {
    return way.seconds / static_cast<double>(v.bytes - way.bytes);
  };
  const std::vector<plan::Way>* const known = tape.timeline ? tape.timeline->known_ways(id) : nullptr;
  for (const store::Kind* const kind : tape.budgeted_step->kinds()) {
    if (kind->lossy()) continue;
    std::optional<plan::Way> way;
    if (!known) {
      way = kind->measure(v.held.storage(), v.dtype);
    } else if (const auto its = std::find_if(known->begin(), known->end(),
                                             [&](const plan::Way& w) { return w.kind == kind->name(); });
               its != known->end()) {
      way = *its;
    }
    if (!way || way->bytes >= v.bytes) continue;
    const EvictionMemory::Way found{kind, way->bytes, way->store_seconds + way->load_seconds};
    if (!best.kind || cost(found) < cost(best)) best = found;
  }
  return best;
}

}  // namespace

// For the rules.
struct Eviction::Evicting {
  using Candidate = EvictionCandidate;

  static constexpr eviction::Weights weights() { return {}; }

  const Op& op(OpId id) const { return tape.op(id); }
  bool is_op_alive(OpId id) const { return op(id).alive > 0; }
  bool is_pending(OpId id) const {
    const Op* const found = tape.find_op(id);
    return !found || found->pending > 0;  // one that is gone tells nothing
  }

  std::vector<ValueId>& start_looking() {
    pricing = tape.next_pricing();
    return work;
  }
  bool first_look(OpId id) { return std::exchange(tape.op(id).priced, pricing) != pricing; }
  static void looked_at(int /*ops*/) {}

  OpId producer(ValueId id) const { return tape.value(id).producer; }
  OpId recorded_at(ValueId id) const { return tape.value(id).recorded_at; }
  bool is_held(ValueId id) const { return static_cast<bool>(tape.value(id).held); }
  bool is_rebuilt(ValueId id) const { return static_cast<bool>(tape.value(id).rebuilt); }
  bool is_at_hand(ValueId id) const { return retrace::is_at_hand(tape, id); }
  bool is_alive(ValueId id) const { return tape.value(id).alive > 0; }
  bool has_handle(ValueId id) const { return tape.value(id).handles > 0; }
  int64_t evictable_bytes(ValueId id) const { return evictable_bytes_of(tape.value(id)); }
  int64_t since_use(ValueId id) const { return tape.clock() - tape.value(id).last_used; }

  OpId reader_before(OpId reader, ValueId id) const {
    for (const TensorArg& arg : op(reader).args) {
      if (arg.value == id && !arg.shape_only) return arg.read_before_by;
    }
    return kNone;
  }
  // Backward goes down the tape, so readers above `from` are never looked at again.
  void each_reader_down(ValueId id, OpId from, auto f) {
    OpId& last = tape.value(id).last_read_by;
    while (last > from && tape.find_op(last)) last = reader_before(last, id);
    for (OpId reader = last; reader != kNone && reader <= from && !f(reader);) reader = reader_before(reader, id);
  }

  // Of what is held as it is.
  void each_way(ValueId id, auto f) {
    const Value& v = tape.value(id);
    if (v.rebuilt || v.external || !v.held.storage()) return;
    const auto [found, is_new] = tape.eviction.ways.try_emplace(id);
    if (is_new) found->second = look_for_way(tape, id);
    const EvictionMemory::Way& way = found->second;
    if (way.kind && way.bytes <= spare_bytes) f(way.kind, way.bytes, way.seconds);
  }

  bool goes_forward() const { return !tape.closed() && !in_backward(); }
  bool in_backward() const { return backward_at() != kNone; }
  OpId backward_at() const { return tape.backward_at(); }

  Tape& tape;
  const int64_t spare_bytes = 0;
  uint32_t pricing = 0;
  std::vector<ValueId> work = {};
};

Eviction::Candidate Eviction::cheapest() {
  Evicting step{tape_, spare_bytes_};
  auto& ranking = tape_.eviction.ranking;
  const int64_t now = tape_.clock();
  if (const auto best = eviction::best_ranked(step, ranking, now)) return *best;
  std::vector<ValueId> there;
  for (ValueId id = tape_.present_from(0); id != kNone; id = tape_.present_from(id + 1)) there.push_back(id);
  const size_t stride = std::max<size_t>(1, there.size() / kMostCandidates);
  const auto rank = [&](auto may_go) {
    eviction::rank(step, ranking, now, [&](auto look) {
      for (size_t i = static_cast<size_t>(now) % stride; i < there.size(); i += stride) {
        if (may_go(tape_.value(there[i]))) look(there[i]);
      }
    });
  };
  // First what a related plan does without, of what is held since forward: what was rebuilt is wanted soon.
  rank([](const Value& v) { return v.expendable && is_held(v); });
  if (ranking.best.empty()) rank([](const Value&) { return true; });
  const auto best = eviction::best_ranked(step, ranking, now);
  return best ? *best : any_evictable();
}

bool Eviction::can_go(ValueId id) {
  Evicting step{tape_};
  return step.evictable_bytes(id) > 0 && eviction::seconds_to_rebuild(step, id);
}

Eviction::Candidate Eviction::any_evictable() {
  for (ValueId id = tape_.present_from(0); id != kNone; id = tape_.present_from(id + 1)) {
    if (can_go(id)) return {id, 0};
  }
  return {};
}

bool Eviction::evict(const Candidate& candidate) {
  return candidate.kind ? put_away(candidate.value, *candidate.kind) : forget(candidate.value);
}

bool Eviction::put_away(ValueId id, const store::Kind& kind) {
  const Value& v = tape_.value(id);
  if (!v.held.storage() || evictable_bytes_of(v) == 0) return false;
  if (!is_as_marked(v, v.held.storage())) {
    tape_.make_root(id);  // written after it was saved
    return false;
  }
  if (tape_.put_away(id, kind)) return true;
  tape_.eviction.ways[id] = {};  // a guess that was wrong
  return false;
}

bool Eviction::forget(ValueId id) {
  Value& v = tape_.value(id);
  if (!can_go(id)) return false;
  if (v.rebuilt) {
    v.rebuilt = c10::Storage();
    ceases_source<Pending>(tape_, id);
    return true;
  }
  if (v.held.storage() && !is_as_marked(v, v.held.storage())) {
    tape_.make_root(id);  // written after it was saved
    return false;
  }
  v.keep = false;
  if (tape_.closed()) hold_roots_of(id);
  tape_.let_go(id);
  return true;
}

// When the step ended, roots that nothing forgotten needed were let go of. They are at hand because the program still
// has them, or else `id` could not go.
void Eviction::hold_roots_of(ValueId id) {
  const uint32_t pricing = tape_.next_pricing();
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    Op& producer = tape_.op(tape_.value(work.back()).producer);
    work.pop_back();
    if (std::exchange(producer.priced, pricing) == pricing) continue;
    for (const TensorArg& arg : producer.args) {
      if (arg.shape_only) continue;
      if (!tape_.is_root(tape_.value(arg.value))) {
        if (!is_at_hand(tape_, arg.value)) work.push_back(arg.value);
      } else if (const c10::Storage living = tape_.living_storage(arg.value)) {
        tape_.hold(arg.value, living);
      }
    }
  }
}

}  // namespace retrace
