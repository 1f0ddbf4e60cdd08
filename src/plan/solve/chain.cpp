// The dynamic programme over cut vertices.
#include <algorithm>
#include <cmath>

#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

constexpr int kBuckets = 64;     // memory is counted in this many pieces
constexpr size_t kLongest = 12;  // segments between two kept cut vertices
constexpr int kWorkspaces = 6;   // sizes of the largest replay that are tried
constexpr float kInfinite = 1e30F;

struct Segment {
  std::vector<ValueId> saved;  // in it, the cut vertex at its end excluded
  double saved_bytes = 0, seconds = 0, cut_bytes = 0;
  ValueId cut = kNone;  // at its end; none after the last one
};

std::vector<Segment> segments_of(const SolverContext& context, const std::vector<ValueId>& cuts) {
  const Graph& graph = context.graph;
  std::vector<Segment> segments(cuts.size() + 1);
  std::vector<OpId> ends;
  for (size_t i = 0; i < cuts.size(); ++i) {
    segments[i].cut = cuts[i];
    segments[i].cut_bytes = static_cast<double>(graph.values[at(cuts[i])].bytes);
    ends.push_back(graph.values[at(cuts[i])].producer);
  }
  const auto of = [&](OpId op) {
    return static_cast<size_t>(std::lower_bound(ends.begin(), ends.end(), op) - ends.begin());
  };
  for (size_t o = 0; o < graph.ops.size(); ++o)
    segments[of(static_cast<OpId>(o))].seconds += least_seconds(graph.ops[o]);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!context.lifetimes.asked(id) || !context.lifetimes.keepable(id)) continue;
    Segment& segment = segments[of(graph.values[v].producer)];
    if (segment.cut == id) continue;
    segment.saved.push_back(id);
    segment.saved_bytes += static_cast<double>(graph.values[v].bytes);
  }
  return segments;
}

// Which cut vertices to keep, and which segments whole, in the least time; no replay holds more than `workspace`.
class Chain {
 public:
  Chain(const std::vector<Segment>& segments, double room, double workspace)
      : segments_(segments), unit_(std::max(1.0, room / kBuckets)), workspace_(workspace) {}

  bool solve(Choices& choices) {
    const size_t n = segments_.size();
    least_.assign((n + 1) * kBuckets, kInfinite);
    from_.assign((n + 1) * kBuckets, {});
    for (int m = 0; m < kBuckets; ++m) least_[static_cast<size_t>(m)] = 0;
    for (size_t i = 0; i < n; ++i) extend(i);
    size_t end = n;
    int m = kBuckets - 1;
    if (least_[end * kBuckets + at(m)] >= kInfinite) return false;
    while (end > 0) {
      const Step step = from_[end * kBuckets + at(m)];
      const Segment& last = segments_[end - 1];
      if (last.cut != kNone) choices[at(last.cut)] = Choice::keep();
      if (step.whole) {
        for (const ValueId v : last.saved) choices[at(v)] = Choice::keep();
      }
      m -= step.buckets;
      end = step.begin;
    }
    return true;
  }

 private:
  struct Step {
    size_t begin = 0;
    int buckets = 0;
    bool whole = false;
  };

  // From a kept cut vertex before segment `begin` to the next kept one.
  void extend(size_t begin) {
    double seconds = 0, held = 0;
    for (size_t end = begin + 1; end <= segments_.size() && end - begin <= kLongest; ++end) {
      const Segment& last = segments_[end - 1];
      seconds += last.seconds;
      held += last.saved_bytes;
      if (end == begin + 1) reach(begin, end, 0, last.saved_bytes + last.cut_bytes, true);
      if (held <= workspace_ || end == begin + 1) reach(begin, end, seconds, last.cut_bytes, false);
      if (held > workspace_) break;
      held += last.cut_bytes;
    }
  }

  void reach(size_t begin, size_t end, double seconds, double bytes, bool whole) {
    const int buckets = static_cast<int>(std::ceil(bytes / unit_));
    for (int m = buckets; m < kBuckets; ++m) {
      const float total = least_[begin * kBuckets + at(m - buckets)] + static_cast<float>(seconds);
      float& best = least_[end * kBuckets + at(m)];
      if (total >= best) continue;
      best = total;
      from_[end * kBuckets + at(m)] = {begin, buckets, whole};
    }
  }

  const std::vector<Segment>& segments_;
  const double unit_, workspace_;
  std::vector<float> least_;  // seconds, by segments done and buckets there are
  std::vector<Step> from_;
};

}  // namespace

Candidate solve_chain(SolverContext& context, int64_t budget_bytes, const Candidate&) {
  if (context.lifetimes.events() == 0) return context.search.simulate(Choices(context.graph.values.size()));
  const std::vector<Segment> segments = segments_of(context, cut_vertices(context));
  const size_t turn = std::min(at(context.lifetimes.first_unpack()), context.lifetimes.events() - 1);
  const auto room = static_cast<double>(budget_bytes - context.lifetimes.base()[turn]);
  double largest = 0, all = 0;
  for (const Segment& s : segments) {
    largest = std::max(largest, s.saved_bytes);
    all += s.saved_bytes;
  }
  Candidate best = context.search.simulate(Choices(context.graph.values.size()));
  double workspace = largest;
  for (int i = 0; i < kWorkspaces && room > 0; ++i, workspace *= 1.6) {
    const double left = std::max(room * 0.05, room - workspace);
    Choices choices(context.graph.values.size());
    if (!Chain(segments, left, workspace).solve(choices)) continue;
    Candidate result = context.search.simulate(std::move(choices));
    if (is_better(result, best, budget_bytes)) best = std::move(result);
    if (workspace > all) break;
  }
  return best;
}

}  // namespace retrace::plan
