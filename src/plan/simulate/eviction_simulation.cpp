#include "plan/simulate/eviction_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace retrace::plan {
namespace {

// As in src/tape/evict.cpp.
constexpr int kMostAncestors = 128;
constexpr size_t kMostRanked = 32, kEventsRanked = 64;
constexpr double kMuchWorse = 1.5;

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
      saved_at_(graph.handles.size()),
      priced_(graph.ops.size()) {
  read_events();
}

void EvictionSimulation::read_events() {
  OpId next = 0;
  for (size_t e = 0; e < graph_.events.size(); ++e) {
    const Event& event = graph_.events[e];
    if (event.kind == EventKind::op) {
      happened_[at(event.id)] = e;
      next = event.id + 1;
      for_each_output(graph_.ops[at(event.id)], [&](ValueId v) { made_[at(v)] = e; });
      for_each_read(graph_.ops[at(event.id)], [&](ValueId v) { readers_[at(v)].push_back(event.id); });
    } else if (event.kind == EventKind::save) {
      saved_at_[at(event.id)] = next;
      last_drop_[at(graph_.handles[at(event.id)])] = graph_.events.size();
    } else if (event.kind == EventKind::drop) {
      last_drop_[at(graph_.handles[at(event.id)])] = e;
    }
  }
}

EvictionSimulation::Result EvictionSimulation::run(Choices start, int64_t budget_bytes, double give_up_seconds,
                                                   const EvictionWeights& weights) {
  weights_ = weights;
  choices_ = std::move(start);
  forgotten_again_.assign(graph_.values.size(), 0);
  ranking_.clear();
  step_.begin(choices_, {.seconds = give_up_seconds});
  step_.ask_for_space(this, budget_bytes);
  step_.run_until(graph_.events.size());
  step_.ask_for_space(nullptr, INT64_MAX);
  return {step_.finish(), choices_, forgotten_again_};
}

bool EvictionSimulation::let_go_of_one() {
  std::optional<Candidate> best = best_ranked();
  if (!best) {
    rank();
    best = best_ranked();
  }
  if (best) let_go(*best);
  return best.has_value();
}

void EvictionSimulation::let_go(const Candidate& candidate) {
  const auto id = candidate.value;
  if (value(id).rebuilt != 0) {
    forgotten_again_[at(id)] = 1;
    return step_.forget_rebuilt(id);
  }
  choices_[at(id)] = candidate.way == kNone ? Choice::rebuild() : Choice::hold(candidate.way);
  step_.stop_holding(id);
  if (candidate.way != kNone) step_.hold(id, candidate.way);
}

// While nothing is recorded: a backward that makes a graph of its own goes forward like any other operators.
bool EvictionSimulation::in_backward() const {
  const EventKind kind = graph_.events[step_.now().next_event].kind;
  return step_.now().in_backward && kind != EventKind::op && kind != EventKind::save;
}

bool EvictionSimulation::is_at_hand(ValueId id) const {
  const SimValue& v = value(id);
  return v.producer == kNone || is_held(v) || v.rebuilt != 0 || step_.is_living(id);
}

// In forward the program still has much that it will soon let go of.
bool EvictionSimulation::will_be_at_hand(ValueId id) const {
  const SimValue& v = value(id);
  return in_backward() ? is_at_hand(id) : v.producer == kNone || is_held(v) || v.rebuilt != 0;
}

double EvictionSimulation::replay_seconds(OpId id, ValueId wanted) const {
  const Op& op = graph_.ops[at(id)];
  const bool shortcut = op.shortcut_seconds > 0 && op.fresh.front() == wanted &&
                        std::all_of(op.fresh.begin() + 1, op.fresh.end(), [&](ValueId v) { return is_at_hand(v); });
  return shortcut ? op.shortcut_seconds : op.seconds;
}

// From what would be left without it, or none if that cannot be done.
std::optional<double> EvictionSimulation::seconds_to_rebuild(ValueId id) {
  const auto later = seconds_to_rebuild(id, true);
  return later ? later : seconds_to_rebuild(id, false);
}

std::optional<double> EvictionSimulation::seconds_to_rebuild(ValueId id, bool later) {
  double seconds = 0;
  int looked = 0;
  ++pricing_;
  work_.assign(1, id);
  while (!work_.empty()) {
    const ValueId wanted = work_.back();
    work_.pop_back();
    const OpId producer = value(wanted).producer;
    if (producer == kNone) return std::nullopt;
    if (std::exchange(priced_[at(producer)], pricing_) == pricing_) continue;
    const bool is_shared = step_.now().ops[at(producer)].alive > 0;
    seconds += replay_seconds(producer, wanted) * (is_shared ? weights_.shared : 1);
    if (++looked > kMostAncestors) continue;
    for (const Arg& arg : graph_.ops[at(producer)].args) {
      if (arg.shape_only) continue;
      if (arg.value == id) return std::nullopt;
      if (!(later ? will_be_at_hand(arg.value) : is_at_hand(arg.value))) work_.push_back(arg.value);
    }
  }
  if (effort_ != nullptr) effort_->spend(looked / kLooks);
  return seconds;
}

int64_t EvictionSimulation::evictable_bytes(ValueId id) const {
  const SimValue& v = value(id);
  if (v.uses > 0 || v.producer == kNone || (v.rebuilt == 0 && v.way != kAsItIs)) return 0;
  return step_.is_shared(id) ? 0 : graph_.values[at(id)].bytes;
}

double EvictionSimulation::time_away(ValueId id) const {
  const size_t now = step_.now().next_event;
  if (!in_backward()) {
    size_t last = made_[at(id)];
    for (auto reader = readers_[at(id)].rbegin(); reader != readers_[at(id)].rend(); ++reader) {
      if (happened_[at(*reader)] > now) continue;
      last = std::max(last, happened_[at(*reader)]);
      break;
    }
    return std::pow(static_cast<double>(now - std::min(now, last)) + 1, weights_.since_use);
  }
  const OpId here = backward_at();
  const double time = std::abs(here - next_use(id, here)) + 1;
  return std::pow(time, value(id).rebuilt != 0 ? weights_.until_use_if_rebuilt : weights_.until_use);
}

// How far down it has come.
OpId EvictionSimulation::backward_at() const {
  const Event& event = graph_.events[step_.now().next_event];
  return event.kind == EventKind::unpack || event.kind == EventKind::drop ? saved_at_[at(event.id)] : 0;
}

// Where backward, which goes down, wants it: at an operator that reads it and is to be run again, or whose gradient needs it.
OpId EvictionSimulation::next_use(ValueId id, OpId here) const {
  const size_t now = step_.now().next_event;
  const auto& readers = readers_[at(id)];
  for (auto reader = readers.rbegin(); reader != readers.rend(); ++reader) {
    if (*reader > here) continue;
    if (step_.now().ops[at(*reader)].pending > 0 || last_drop_[at(id)] > now) return *reader;
  }
  return value(id).producer;
}

std::optional<EvictionSimulation::Candidate> EvictionSimulation::priced(ValueId id) {
  const int64_t bytes = evictable_bytes(id);
  if (bytes == 0) return std::nullopt;
  const std::optional<double> seconds = seconds_to_rebuild(id);
  if (seconds && value(id).alive == 0) return Candidate{id, 0};
  const double away = time_away(id);
  std::optional<Candidate> best;
  if (seconds) best = Candidate{id, *seconds / (static_cast<double>(bytes) * away)};
  const Value& v = graph_.values[at(id)];
  for (int way = 1; way < v.way_count() && value(id).rebuilt == 0; ++way) {
    if (v.lossy_in(way) || v.bytes_in(way) >= bytes) continue;
    const double score = v.seconds_in(way) / (static_cast<double>(bytes - v.bytes_in(way)) * away);
    if (!best || score < best->score) best = Candidate{id, score, way};
  }
  return best;
}

std::optional<EvictionSimulation::Candidate> EvictionSimulation::best_ranked() {
  if (step_.now().next_event - ranked_at_ > kEventsRanked) ranking_.clear();
  while (!ranking_.empty()) {
    const std::optional<Candidate> now = priced(ranking_.back().value);
    const bool is_last = ranking_.size() == 1;
    if (now && now->score > kMuchWorse * ranked_score_ && step_.now().next_event > ranked_at_) {
      ranking_.clear();
      break;
    }
    if (now && (is_last || now->score <= ranking_.end()[-2].score)) return now;
    ranking_.pop_back();
  }
  return std::nullopt;
}

void EvictionSimulation::rank() {
  ranking_.clear();
  ranked_at_ = step_.now().next_event;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    if (const auto candidate = priced(static_cast<ValueId>(v))) ranking_.push_back(*candidate);
  }
  std::sort(ranking_.begin(), ranking_.end(), [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  ranked_score_ = ranking_.empty() ? 0 : ranking_.back().score;
  if (ranking_.size() > kMostRanked)
    ranking_.erase(ranking_.begin(), ranking_.end() - static_cast<std::ptrdiff_t>(kMostRanked));
}

}  // namespace retrace::plan
