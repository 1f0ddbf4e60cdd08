// Plans for graphs without cut vertices: what crosses some moments of forward is held, and the rest rebuilt between
// them.
#include <algorithm>

#include "plan/solve/strategies.h"

namespace retrace::plan {
namespace {

constexpr size_t kMostSegments = 32;
constexpr double kWindow = 0.4;  // of a segment: where the narrowest moment is looked for
constexpr int kMostSteps = 4;    // back to something smaller

// The forward part of a step: what is live because a later operator reads it.
class Forward {
 public:
  explicit Forward(const SolverContext& context)
      : graph_(context.graph), lifetimes_(context.lifetimes), last_read_(graph_.values.size(), kNone) {
    for (const Event& event : graph_.events) {
      if (event.kind == EventKind::unpack) break;
      if (event.kind == EventKind::op) ops_.push_back(event.id);
    }
    for (const OpId o : ops_) {
      for_each_read(graph_.ops[at(o)], [&](ValueId v) { last_read_[at(v)] = o; });
    }
    std::vector<char> saved(graph_.values.size());
    for (const ValueId v : graph_.handles) saved[at(v)] = 1;
    std::vector<int64_t> ends(graph_.ops.size());
    int64_t live = 0, sum = 0;
    for (const OpId o : ops_) {
      for_each_output(graph_.ops[at(o)], [&](ValueId v) {
        sum += saved[at(v)] != 0 ? graph_.values[at(v)].bytes : 0;
        if (!crosses(v)) return;
        live += graph_.values[at(v)].bytes;
        ends[at(last_read_[at(v)])] += graph_.values[at(v)].bytes;
      });
      live -= ends[at(o)];
      live_bytes_.push_back(live);
      saved_bytes_.push_back(sum);
    }
  }

  // So many segments of about equal bytes saved, cut where least is live: positions among the operators.
  std::vector<size_t> moments(size_t segments) const {
    std::vector<size_t> found;
    const double each =
        static_cast<double>(saved_bytes_.empty() ? 0 : saved_bytes_.back()) / static_cast<double>(segments);
    const auto position = [&](double bytes) {
      return std::lower_bound(saved_bytes_.begin(), saved_bytes_.end(), static_cast<int64_t>(bytes)) -
             saved_bytes_.begin();
    };
    for (size_t i = 1; i < segments; ++i) {
      const auto begin = live_bytes_.begin() + position((static_cast<double>(i) - kWindow) * each);
      const auto end = live_bytes_.begin() + position((static_cast<double>(i) + kWindow) * each);
      if (begin < end) found.push_back(static_cast<size_t>(std::min_element(begin, end) - live_bytes_.begin()));
    }
    return found;
  }

  // Holds what crosses these moments.
  Choices choices(const std::vector<size_t>& moments, Choice others) const {
    Choices choices(graph_.values.size(), others);
    auto next = moments.begin();
    for (size_t i = 0; i < ops_.size() && next != moments.end(); ++i) {
      while (next != moments.end() && *next < i) ++next;
      if (next == moments.end()) break;
      for_each_output(graph_.ops[at(ops_[i])], [&](ValueId v) {
        if (crosses(v) && last_read_[at(v)] > ops_[*next]) hold(v, choices, 0);
      });
    }
    return choices;
  }

 private:
  bool crosses(ValueId v) const {
    return graph_.values[at(v)].producer != kNone && last_read_[at(v)] > graph_.values[at(v)].producer &&
           lifetimes_.keepable(v);
  }

  // Or what it is made from, if that is half as large: a product that a whole layer reads part by part.
  void hold(ValueId v, Choices& choices, int steps) const {
    const Value& value = graph_.values[at(v)];
    if (value.producer == kNone || !lifetimes_.keepable(v)) return;
    int64_t sources = 0;
    for (const Arg& arg : graph_.ops[at(value.producer)].args) {
      const Value& source = graph_.values[at(arg.value)];
      if (!arg.shape_only && source.producer != kNone) sources += source.bytes;
    }
    if (steps == kMostSteps || lifetimes_.asked(v) || 2 * sources > value.bytes) {
      choices[at(v)] = Choice::keep();
      return;
    }
    for (const Arg& arg : graph_.ops[at(value.producer)].args) {
      if (!arg.shape_only) hold(arg.value, choices, steps + 1);
    }
  }

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  std::vector<OpId> ops_;                          // in order
  std::vector<OpId> last_read_;                    // by value
  std::vector<int64_t> live_bytes_, saved_bytes_;  // by position: after that operator; of the latter, so far
};

}  // namespace

// Where nothing else fits: it rebuilds nearly everything.
Candidate solve_from_frontiers(SolverContext& context, int64_t budget_bytes, const Candidate& so_far) {
  if (so_far.fits(budget_bytes)) return so_far;
  const Forward forward(context);
  Candidate best;
  for (size_t segments = 2; segments <= kMostSegments && !context.effort.exhausted(); segments += 1 + segments / 4) {
    const std::vector<size_t> moments = forward.moments(segments);
    Candidate found = context.search.simulate(forward.choices(moments, Choice::rebuild()));
    if (best.choices.empty() || is_better(found, best, budget_bytes)) best = std::move(found);
  }
  return finish(context, std::move(best), budget_bytes);
}

}  // namespace retrace::plan
