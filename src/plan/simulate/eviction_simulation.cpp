#include "plan/simulate/eviction_simulation.h"

#include <algorithm>
#include <utility>

namespace retrace::plan {
namespace {

constexpr int64_t kLooks = 4;  // at operators, in the time that an event takes

}  // namespace

EvictionSimulation::EvictionSimulation(const Graph& graph, Effort* effort)
    : graph_(graph),
      effort_(effort),
      step_(graph, effort),
      readers_(graph.values.size()),
      made_(graph.values.size()),
      happened_(graph.ops.size()),
      last_drop_(graph.values.size()),
      priced_(graph.ops.size()) {
  read_events();
}

void EvictionSimulation::read_events() {
  for (size_t e = 0; e < graph_.events.size(); ++e) {
    const Event& event = graph_.events[e];
    if (event.kind == EventKind::op) {
      happened_[at(event.id)] = e;
      for_each_output(graph_.ops[at(event.id)], [&](ValueId v) { made_[at(v)] = e; });
      for_each_read(graph_.ops[at(event.id)], [&](ValueId v) { readers_[at(v)].push_back(event.id); });
    } else if (event.kind == EventKind::save) {
      last_drop_[at(graph_.handles[at(event.id)])] = graph_.events.size();
    } else if (event.kind == EventKind::drop) {
      last_drop_[at(graph_.handles[at(event.id)])] = e;
    }
  }
}

EvictionSimulation::Result EvictionSimulation::run(Choices start, int64_t budget_bytes, double give_up_seconds,
                                                   const eviction::Weights& weights) {
  weights_ = weights;
  choices_ = std::move(start);
  forgotten_again_.assign(graph_.values.size(), 0);
  ranking_ = {};
  step_.begin(choices_, {.seconds = give_up_seconds});
  step_.ask_for_space(this, budget_bytes);
  step_.run_until(graph_.events.size());
  step_.ask_for_space(nullptr, INT64_MAX);
  return {step_.finish(), choices_, forgotten_again_};
}

// For the rules.
struct EvictionSimulation::Evicting {
  using Candidate = EvictionSimulation::Candidate;

  const eviction::Weights& weights() const { return of.weights_; }
  const SimValue& sim(ValueId id) const { return of.step_.now().values[at(id)]; }
  size_t now() const { return of.step_.now().next_event; }
  const Event& event() const { return of.graph_.events[now()]; }

  const Op& op(OpId id) const { return of.graph_.ops[at(id)]; }
  bool is_op_alive(OpId id) const { return of.step_.now().ops[at(id)].alive > 0; }
  bool is_pending(OpId id) const { return of.step_.now().ops[at(id)].pending > 0; }

  std::vector<ValueId>& start_looking() {
    ++of.pricing_;
    return of.work_;
  }
  bool first_look(OpId id) { return std::exchange(of.priced_[at(id)], of.pricing_) != of.pricing_; }
  void looked_at(int ops) const {
    if (of.effort_ != nullptr) of.effort_->spend(ops / kLooks);
  }

  OpId producer(ValueId id) const { return sim(id).producer; }
  OpId recorded_at(ValueId id) const { return sim(id).producer; }
  bool is_held(ValueId id) const { return plan::is_held(sim(id)); }
  bool is_rebuilt(ValueId id) const { return sim(id).rebuilt != 0; }
  bool is_at_hand(ValueId id) const {
    return producer(id) == kNone || is_held(id) || is_rebuilt(id) || of.step_.is_living(id);
  }
  bool is_alive(ValueId id) const { return sim(id).alive > 0; }
  bool has_handle(ValueId id) const { return of.last_drop_[at(id)] > now(); }

  int64_t evictable_bytes(ValueId id) const {
    const SimValue& v = sim(id);
    if (v.uses > 0 || v.producer == kNone || (v.rebuilt == 0 && v.way != kAsItIs)) return 0;
    return of.step_.is_shared(id) ? 0 : of.graph_.values[at(id)].bytes;
  }

  size_t since_use(ValueId id) const {
    const auto& readers = of.readers_[at(id)];
    const auto last_reader =
        std::find_if(readers.rbegin(), readers.rend(), [&](OpId reader) { return of.happened_[at(reader)] <= now(); });
    size_t last = of.made_[at(id)];
    if (last_reader != readers.rend()) last = std::max(last, of.happened_[at(*last_reader)]);
    return now() - std::min(now(), last);
  }

  void each_reader_down(ValueId id, OpId from, auto f) const {
    const auto& readers = of.readers_[at(id)];
    for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
      if (*reader <= from && f(*reader)) return;
    }
  }

  void each_way(ValueId id, auto f) const {
    const Value& v = of.graph_.values[at(id)];
    for (int way = 1; way < v.way_count() && !is_rebuilt(id); ++way) {
      if (!v.lossy_in(way) && v.bytes_in(way) < v.bytes) f(way, v.bytes_in(way), v.seconds_in(way));
    }
  }

  // While nothing is recorded: a backward that makes a graph of its own goes forward like any other operators.
  bool in_backward() const {
    return of.step_.now().in_backward && event().kind != EventKind::op && event().kind != EventKind::save;
  }
  bool goes_forward() const { return !in_backward(); }
  // How far down it has come.
  OpId backward_at() const {
    const bool is_of_handle = event().kind == EventKind::unpack || event().kind == EventKind::drop;
    return is_of_handle ? of.step_.facts().saved_at(event().id) : 0;
  }

  EvictionSimulation& of;
};

bool EvictionSimulation::let_go_of_one() {
  Evicting step{*this};
  const auto now = static_cast<int64_t>(step.now());
  std::optional<Candidate> best = eviction::best_ranked(step, ranking_, now);
  if (!best) {
    eviction::rank(step, ranking_, now, [&](auto look) {
      for (ValueId v = step_.present_from(0); v != kNone; v = step_.present_from(v + 1)) look(v);
    });
    best = eviction::best_ranked(step, ranking_, now);
  }
  if (best) let_go(*best);
  return best.has_value();
}

void EvictionSimulation::let_go(const Candidate& candidate) {
  const auto id = candidate.value;
  if (step_.now().values[at(id)].rebuilt != 0) {
    forgotten_again_[at(id)] = 1;
    return step_.forget_rebuilt(id);
  }
  choices_[at(id)] = candidate.way == kNone ? Choice::rebuild() : Choice::hold(candidate.way);
  step_.stop_holding(id);
  if (candidate.way != kNone) step_.hold(id, candidate.way);
}

}  // namespace retrace::plan
