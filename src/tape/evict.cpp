#include "tape/evict.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "tape/budgeted_step.h"
#include "tape/tape.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

// Ancestors that are gone too must be rebuilt first. Looking at this many tells cheap from expensive.
constexpr int kMostAncestors = 128;
// Of the seconds of an operator that is to run again anyway, for something else that was forgotten.
constexpr double kShared = 0.25;
// A long tape is sampled: the best of so many is good enough, and the time to look stays small.
constexpr ValueId kMostCandidates = 1024;

constexpr size_t kMostRanked = 32;
constexpr int64_t kEventsRanked = 64;
constexpr double kMuchWorse = 1.5;  // than the best was: by then others can be had that the program had in hand

}  // namespace

bool Eviction::is_at_hand(ValueId id) {
  const Value& v = tape_.value(id);
  if (v.held || v.rebuilt) return true;
  const c10::Storage living = tape_.living_storage(id);
  // After its step a weight may have been updated in a way that LibTorch does not count.
  return living && (!tape_.closed() || is_as_marked(v, living));
}

// In forward the program still has much that it will soon let go of.
bool Eviction::will_be_at_hand(ValueId id) {
  const Value& v = tape_.value(id);
  const bool goes_on = !tape_.closed() && tape_.backward_at() == kNone;
  return goes_on && !tape_.is_root(v) ? v.held || v.rebuilt : is_at_hand(id);
}

double Eviction::replay_seconds(const Op& op, ValueId wanted) {
  const bool shortcut = op.shortcut_seconds > 0 && op.fresh.front().value == wanted &&
                        std::all_of(op.fresh.begin() + 1, op.fresh.end(),
                                    [&](const FreshOutput& output) { return is_at_hand(output.value); });
  return shortcut ? op.shortcut_seconds : op.seconds;
}

// Seconds to rebuild `id` from what would be left without it, or none if that cannot be done.
std::optional<double> Eviction::seconds_to_rebuild(ValueId id) {
  const auto later = seconds_to_rebuild(id, [this](ValueId v) { return will_be_at_hand(v); });
  return later ? later : seconds_to_rebuild(id, [this](ValueId v) { return is_at_hand(v); });
}

template <class IsThere>
std::optional<double> Eviction::seconds_to_rebuild(ValueId id, IsThere is_there) {
  double seconds = 0;
  int looked = 0;
  const uint32_t pricing = tape_.next_pricing();
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const ValueId at = work.back();
    work.pop_back();
    if (tape_.is_root(tape_.value(at))) return std::nullopt;
    Op& producer = tape_.op(tape_.value(at).producer);
    if (producer.priced == pricing) continue;
    producer.priced = pricing;
    seconds += replay_seconds(producer, at) * (producer.alive > 0 ? kShared : 1);
    // Beyond the limit only whether it is possible matters no more either: what is that deep has been kept so far.
    if (++looked > kMostAncestors) continue;
    for (const TensorArg& arg : producer.args) {
      if (arg.shape_only) continue;
      if (arg.value == id) return std::nullopt;
      if (!is_there(arg.value)) work.push_back(arg.value);
    }
  }
  return seconds;
}

int64_t Eviction::evictable_bytes(ValueId id) const {
  const Value& v = tape_.value(id);
  if (v.uses > 0 || v.producer == kNone) return 0;
  if (v.rebuilt) return v.rebuilt.use_count() > 1 ? 0 : v.bytes;
  if (v.held.is_stored()) return v.kind && v.kind->lossy() ? 0 : v.held.bytes();
  return !v.held || v.held.is_copy() || v.held.is_shared() ? 0 : v.bytes;
}

// The powers are a compromise, tried out by simulation on tapes of our own models and examples (EvictionSimulation): a lower one
// in forward is better for nets of layers, and worse for recurrent ones near their smallest budget.
double Eviction::time_away(ValueId id) {
  const Value& v = tape_.value(id);
  const OpId at = tape_.backward_at();
  if (at == kNone) return std::sqrt(static_cast<double>(tape_.clock() - v.last_used) + 1);
  const double time = std::abs(at - next_use(id, at)) + 1;
  return v.rebuilt ? time : std::sqrt(std::sqrt(time));
}

// Where backward, which has come to `at` and goes down, wants it: at an op that reads it and is to be run again, or whose
// gradient needs it.
OpId Eviction::next_use(ValueId id, OpId at) {
  Value& v = tape_.value(id);
  const auto before = [&](const Op& reader) {
    for (const TensorArg& arg : reader.args) {
      if (arg.value == id && !arg.shape_only) return arg.read_before_by;
    }
    return kNone;
  };
  while (v.last_read_by > at && tape_.find_op(v.last_read_by)) v.last_read_by = before(tape_.op(v.last_read_by));
  for (OpId reader = v.last_read_by; reader != kNone && reader <= at;) {
    const Op* const op = tape_.find_op(reader);
    if (!op || op->pending > 0 || v.handles > 0) return reader;
    reader = before(*op);
  }
  return v.recorded_at;
}

// In forward, and of what has been held since then: what was rebuilt is wanted soon.
bool Eviction::is_expendable(ValueId id) const {
  const Value& v = tape_.value(id);
  return v.expendable && is_held(v);
}

Eviction::Candidate Eviction::cheapest() {
  if (const Candidate best = best_ranked(); best.value != kNone) return best;
  rank([this](ValueId id) { return is_expendable(id); });
  if (tape_.eviction.ranking.empty()) rank([](ValueId) { return true; });
  const Candidate best = best_ranked();
  return best.value == kNone ? any_evictable() : best;
}

// What it takes to be without a value changes as others go: it counts as best while it is no worse than the next was, and not
// much worse than the best.
Eviction::Candidate Eviction::best_ranked() {
  std::vector<Candidate>& ranking = tape_.eviction.ranking;
  if (tape_.clock() - tape_.eviction.ranked_at > kEventsRanked) ranking.clear();
  while (!ranking.empty()) {
    const std::optional<Candidate> now = priced(ranking.back().value);
    const bool is_last = ranking.size() == 1;
    if (now && now->score > kMuchWorse * tape_.eviction.ranked_score && tape_.clock() > tape_.eviction.ranked_at) {
      ranking.clear();
      break;
    }
    if (now && (is_last || now->score <= ranking.end()[-2].score)) return *now;
    ranking.pop_back();
  }
  return {};
}

template <class MayGo>
void Eviction::rank(MayGo may_go) {
  std::vector<Candidate>& best = tape_.eviction.ranking;
  best.clear();
  tape_.eviction.ranked_at = tape_.clock();
  const auto is_worse = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  const ValueId stride = std::max(1, tape_.next_value() / kMostCandidates);
  const auto first = static_cast<ValueId>(tape_.clock() % stride);
  for (ValueId id = first; id < tape_.next_value(); id += stride) {
    if (!may_go(id)) continue;
    if (const std::optional<Candidate> candidate = priced(id)) best.push_back(*candidate);
  }
  std::sort(best.begin(), best.end(), is_worse);
  tape_.eviction.ranked_score = best.empty() ? 0 : best.back().score;
  if (best.size() > kMostRanked) best.erase(best.begin(), best.end() - static_cast<std::ptrdiff_t>(kMostRanked));
}

std::optional<Eviction::Candidate> Eviction::priced(ValueId id) {
  const int64_t bytes = evictable_bytes(id);
  if (bytes == 0) return std::nullopt;
  const std::optional<double> seconds = seconds_to_rebuild(id);
  // What no handle needs any more (a graph that died in forward) costs nothing to be without.
  if (seconds && tape_.value(id).alive == 0) return Candidate{id, 0};
  const double away = time_away(id);
  std::optional<Candidate> best;
  if (seconds) best = Candidate{id, *seconds / (static_cast<double>(bytes) * away)};
  const EvictionMemory::Way& way = way_of(id);
  if (!way.kind || way.bytes > spare_bytes_) return best;
  const double score = way.seconds / (static_cast<double>(bytes - way.bytes) * away);
  return best && best->score <= score ? best : Candidate{id, score, way.kind};
}

// Of what is held as it is.
const EvictionMemory::Way& Eviction::way_of(ValueId id) {
  static constexpr EvictionMemory::Way kNoWay;
  const Value& v = tape_.value(id);
  if (v.rebuilt || v.external || !v.held.storage()) return kNoWay;
  const auto [found, is_new] = tape_.eviction.ways.try_emplace(id);
  if (is_new) found->second = look_for_way(id);
  return found->second;
}

// The timeline knows it, if this step looks for the ways of all values.
EvictionMemory::Way Eviction::look_for_way(ValueId id) const {
  EvictionMemory::Way best;
  if (!tape_.budgeted_step) return best;
  const Value& v = tape_.value(id);
  const auto cost = [&](const EvictionMemory::Way& way) {
    return way.seconds / static_cast<double>(v.bytes - way.bytes);
  };
  const std::vector<plan::Way>* const known = tape_.timeline ? tape_.timeline->known_ways(id) : nullptr;
  for (const store::Kind* const kind : tape_.budgeted_step->kinds()) {
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

Eviction::Candidate Eviction::any_evictable() {
  for (ValueId id = 0; id < tape_.next_value(); ++id) {
    if (evictable_bytes(id) > 0 && seconds_to_rebuild(id)) return {id, 0};
  }
  return {};
}

bool Eviction::evict(const Candidate& candidate) {
  return candidate.kind ? put_away(candidate.value, *candidate.kind) : forget(candidate.value);
}

bool Eviction::put_away(ValueId id, const store::Kind& kind) {
  const Value& v = tape_.value(id);
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
  if (evictable_bytes(id) == 0 || !seconds_to_rebuild(id)) return false;
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

// When the step ended, roots that nothing forgotten needed were let go of. The program still has them, or `id` could not go.
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
        if (!is_at_hand(arg.value)) work.push_back(arg.value);
      } else if (const c10::Storage living = tape_.living_storage(arg.value)) {
        tape_.hold(arg.value, living);
      }
    }
  }
}

}  // namespace retrace
