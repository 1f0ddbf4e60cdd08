// Which value to let go of when memory runs short: the one with the least seconds to rebuild per byte freed and per time
// since it was last used. A heuristic (after Dynamic Tensor Rematerialization); a plan replaces it from the second step on.

#include <algorithm>
#include <optional>

#include "plan/simulate/demand.h"
#include "tape/tape.h"

namespace retrace {
namespace {

// Ancestors that are gone too must be rebuilt first. Looking at this many tells cheap from dear.
constexpr int kMostAncestors = 128;
// A long tape is sampled: the best of so many is good enough, and the time to look stays small.
constexpr size_t kMostCandidates = 1024;

}  // namespace

bool Tape::is_at_hand(ValueId id) {
  const Value& v = value(id);
  if (v.held || v.rebuilt) return true;
  const c10::Storage living = living_storage(id);
  // After its step a weight may have been updated in a way that LibTorch does not count.
  return living && (!closed_ || is_as_marked(id, living));
}

double Tape::replay_seconds(const Op& op, ValueId wanted) {
  const bool shortcut = op.shortcut_seconds > 0 && op.fresh.front().value == wanted &&
                        std::all_of(op.fresh.begin() + 1, op.fresh.end(),
                                    [&](const FreshOutput& output) { return is_at_hand(output.value); });
  return shortcut ? op.shortcut_seconds : op.seconds;
}

// Seconds to rebuild `id` from what would be left without it, or none if that cannot be done.
std::optional<double> Tape::seconds_to_rebuild(ValueId id) {
  double seconds = 0;
  int looked = 0;
  ++pricings_;
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const ValueId at = work.back();
    work.pop_back();
    if (is_root(value(at))) return std::nullopt;
    Op& producer = op(value(at).producer);
    if (producer.priced == pricings_) continue;
    producer.priced = pricings_;
    seconds += replay_seconds(producer, at);
    // Beyond the limit only whether it is possible matters no more either: what is that deep has been kept so far.
    if (++looked > kMostAncestors) continue;
    for (const TensorArg& arg : producer.args) {
      if (arg.shape_only) continue;
      if (arg.value == id) return std::nullopt;
      if (!is_at_hand(arg.value)) work.push_back(arg.value);
    }
  }
  return seconds;
}

int64_t Tape::evictable_bytes(ValueId id) const {
  const Value& v = value(id);
  if (v.uses > 0 || v.producer == kNone) return 0;
  if (v.rebuilt) return v.rebuilt.use_count() > 1 ? 0 : v.bytes;
  if (!v.held.storage() || v.held.is_copy()) return 0;
  return v.held.is_shared() ? 0 : v.bytes;
}

Tape::Evictable Tape::cheapest() {
  Evictable best;
  const size_t stride = std::max<size_t>(1, values_.size() / kMostCandidates);
  for (size_t i = stride == 1 ? 0 : static_cast<size_t>(clock_) % stride; i < values_.size(); i += stride) {
    const auto id = static_cast<ValueId>(i);
    const int64_t bytes = evictable_bytes(id);
    if (bytes == 0) continue;
    const std::optional<double> seconds = seconds_to_rebuild(id);
    if (!seconds) continue;
    const auto staleness = static_cast<double>(clock_ - values_[i].last_used + 1);
    // What no handle needs any more (a graph that died in forward) costs nothing to be without.
    const double score = values_[i].alive == 0 ? 0 : *seconds / (static_cast<double>(bytes) * staleness);
    if (best.value == kNone || score < best.score) best = {id, score};
  }
  return best.value == kNone && stride > 1 ? any_evictable() : best;
}

Tape::Evictable Tape::any_evictable() {
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (evictable_bytes(id) > 0 && seconds_to_rebuild(id)) return {id, 0};
  }
  return {};
}

int64_t Tape::evict(ValueId id) {
  if (id == kNone) return 0;
  Value& v = value(id);
  const int64_t bytes = evictable_bytes(id);
  if (bytes == 0 || !seconds_to_rebuild(id)) return 0;
  if (v.rebuilt) {
    v.rebuilt = c10::Storage();
    ceases_source<Pending>(*this, id);
  } else if (!is_as_marked(id, v.held.storage())) {
    make_root(id);  // written after it was saved
    return 0;
  } else {
    v.keep = false;
    if (closed_) hold_roots_of(id);
    let_go(id);
  }
  return bytes;
}

// When the step ended, roots that nothing forgotten needed were let go of. The program still has them, or `id` could not go.
void Tape::hold_roots_of(ValueId id) {
  ++pricings_;
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    Op& producer = op(value(work.back()).producer);
    work.pop_back();
    if (std::exchange(producer.priced, pricings_) == pricings_) continue;
    for (const TensorArg& arg : producer.args) {
      if (arg.shape_only) continue;
      if (!is_root(value(arg.value))) {
        if (!is_at_hand(arg.value)) work.push_back(arg.value);
      } else if (const c10::Storage living = living_storage(arg.value)) {
        hold(arg.value, living);
      }
    }
  }
}

}  // namespace retrace
