#include "doctor/tape_diagnosis.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include <retrace/budget.h>
#include <retrace/errors.h>
#include <retrace/policy.h>

#include "plan/solve/plan.h"
#include "policy/predict.h"

namespace retrace::doctor {
namespace {

constexpr size_t kManyOperators = 4000;
constexpr int64_t kSimulations = 200;  // that the search for a plan may take: effort, not time, so that answers repeat

std::vector<Policy> named_policies() {
  std::vector<Policy> policies{selective()};
  for (const int64_t n : {1, 2, 4, 8, 16}) policies.push_back(every(n));
  policies.push_back(recompute_all());
  return policies;
}

std::string session_code(const std::string& policy) {
  return fmt::format("retrace::Session session({});   // session.step() around each step", policy);
}

// "every:2" as C++.
std::string code_of(const std::string& name) {
  const size_t colon = name.find(':');
  return session_code("retrace::" + name.substr(0, colon) + "(" +
                      (colon == std::string::npos ? "" : name.substr(colon + 1)) + ")");
}

double part_of(double seconds, double step) { return step > 0 ? seconds / step : 0; }

// State that an optimizer makes for float32 weights, as far as the tape does not have it.
int64_t missing_state(const plan::Graph& graph, const std::optional<Optimizer>& optimizer, int64_t start_gradients) {
  if (!optimizer) return 0;
  const int64_t moment = optimizer->eight_bit ? graph.weight_bytes / 4 : graph.weight_bytes;
  const int64_t there = std::max<int64_t>(graph.start_bytes - graph.weight_bytes - start_gradients, 0);
  return std::max<int64_t>(times(moment, optimizer->moments) - there, 0);
}

// The smallest budget; of a long step, for which that takes half a minute, the leanest named policy.
plan::Outcome leanest(const plan::Graph& graph) {
  if (graph.ops.size() <= kManyOperators) return plan::smallest(graph);
  plan::Outcome best = plan::plain(graph);
  for (const Policy& policy : named_policies()) {
    plan::Outcome outcome = predict(graph, policy);
    if (outcome.peak_bytes < best.peak_bytes) best = std::move(outcome);
  }
  return best;
}

TapeRow plain_row(const plan::Outcome& plain, int64_t added) {
  return {.name = "as it is", .code = "// nothing to add", .peak_bytes = plus(plain.peak_bytes, added)};
}

TapeRow row_of(const plan::Graph& graph, const Policy& policy, int64_t added) {
  const plan::Outcome outcome = predict(graph, policy);
  return {.name = policy.name(),
          .code = code_of(policy.name()),
          .peak_bytes = plus(outcome.peak_bytes, added),
          .extra = part_of(outcome.replay_seconds, graph.seconds)};
}

std::optional<TapeRow> planned_row(const plan::Graph& graph, const TapeDiagnosis& d) {
  const int64_t budget_bytes = d.memory.usable() - d.added_state;
  if (budget_bytes <= 0) return std::nullopt;
  plan::SolveOptions options;
  options.most_effort = kSimulations * static_cast<int64_t>(graph.events.size());
  const auto plan = plan::solve(graph, budget_bytes, options).plan;
  if (!plan) return std::nullopt;
  return TapeRow{
      .name = "budget",
      .code = session_code(fmt::format("retrace::budget(\"{}\")", retrace::budget(d.memory.usable()).text())),
      .peak_bytes = plus(plan->peak_bytes, d.added_state),
      .extra = part_of(plan->replay_seconds, graph.seconds),
      .fits = true};
}

void add_sharded(TapeDiagnosis& d, int stage, int64_t fixed, int64_t shared) {
  const int64_t usable = d.memory.usable();
  const int64_t free = usable - fixed;
  const int64_t ranks = free > 0 ? std::max<int64_t>((shared + free - 1) / free, 2) : 0;
  if (ranks == 0) {
    d.means.push_back({fmt::format("ZeRO-{} over any number of ranks", stage), fixed, false});
  } else {
    d.means.push_back(
        {fmt::format("ZeRO-{} over {} ranks", stage, ranks), plus(fixed, (shared + ranks - 1) / ranks), true});
  }
}

// The step with the smallest budget, and what was there before it elsewhere.
void look_further(TapeDiagnosis& d, const plan::Owners& owners) {
  const int64_t weights = owners.weights, gradients = owners.gradients;
  const int64_t state = plus(std::max<int64_t>(d.facts.before - d.start_gradients, 0), d.added_state);
  const int64_t step = std::max<int64_t>(d.smallest_bytes - weights - gradients - state, 0);
  const auto add = [&](const char* name, int64_t bytes) {
    d.means.push_back({name, bytes, bytes <= d.memory.usable()});
  };
  add("the smallest budget alone", d.smallest_bytes);
  add("optimizer state and data to host", d.smallest_bytes - state);
  add("8-bit optimizer state", d.smallest_bytes - state + state / 4);
  add_sharded(d, 1, plus(plus(weights, gradients), step), state);
  add_sharded(d, 2, plus(weights, step), plus(gradients, state));
  add_sharded(d, 3, step, plus(plus(weights, gradients), state));
}

// The largest batch whose peak stays within the memory. Peaks are maxima of straight lines, so the next guess is where the
// line through the last two points says.
int64_t largest_batch(const std::function<int64_t(int64_t)>& peak, int64_t usable) {
  const auto peak_or_none = [&](int64_t batch) {
    try {
      return peak(batch);
    } catch (const UsageError&) {
      return INT64_MAX;
    }
  };
  int64_t good = 0, good_peak = 0, bad = 1, bad_peak = 0;
  while ((bad_peak = peak_or_none(bad)) <= usable) {
    good = bad, good_peak = bad_peak;
    if (bad > (int64_t{1} << 40)) return bad;
    bad *= 8;
  }
  for (bool halve = false; bad - good > 1; halve = !halve) {
    int64_t guess = good + (bad - good) / 2;
    if (!halve && bad_peak != INT64_MAX && bad_peak > good_peak && good > 0) {
      const double slope = static_cast<double>(bad_peak - good_peak) / static_cast<double>(bad - good);
      guess = good + static_cast<int64_t>(static_cast<double>(usable - good_peak) / slope);
      guess = std::clamp(guess, good + 1, bad - 1);
    }
    const int64_t at = peak_or_none(guess);
    (at <= usable ? std::tie(good, good_peak) : std::tie(bad, bad_peak)) = std::make_tuple(guess, at);
  }
  return good;
}

// Steps at other batches. The first that a search asks for are the same for every policy.
class Steps {
 public:
  explicit Steps(const TwoTapes& tapes) : tapes_(tapes) {}
  const plan::Graph& at(int64_t batch) {
    if (const auto found = steps_.find(batch); found != steps_.end()) return found->second;
    if (steps_.size() >= kMostSteps) steps_.erase(std::prev(steps_.end()));
    return steps_.emplace(batch, tapes_.at(batch)).first->second;
  }

 private:
  static constexpr size_t kMostSteps = 8;
  const TwoTapes& tapes_;
  std::map<int64_t, plan::Graph> steps_;
};

void find_batches(TapeDiagnosis& d, const TwoTapes& tapes) {
  const int64_t usable = d.memory.usable() - d.added_state;
  Steps steps(tapes);
  const auto find = [&](TapeRow& row, const std::function<int64_t(const plan::Graph&)>& peak) {
    row.largest_batch = largest_batch([&](int64_t batch) { return peak(steps.at(batch)); }, usable);
  };
  find(d.rows.front(), [](const plan::Graph& graph) { return plan::plain(graph).peak_bytes; });
  const auto policies = named_policies();
  int64_t most = d.rows.front().largest_batch;
  for (size_t i = 0; i < policies.size(); ++i) {
    find(d.rows[i + 1], [&](const plan::Graph& graph) { return predict(graph, policies[i]).peak_bytes; });
    most = std::max(most, d.rows[i + 1].largest_batch);
  }
  if (!d.planned) return;
  d.planned->largest_batch = most;  // a budget holds wherever a policy does
  if (d.operators <= kManyOperators) {
    find(*d.planned, [](const plan::Graph& graph) { return plan::smallest(graph).peak_bytes; });
    d.planned->largest_batch = std::max(d.planned->largest_batch, most);
  }
}

}  // namespace

const TapeRow* TapeDiagnosis::advised() const {
  const TapeRow* best = planned ? &*planned : nullptr;
  for (const TapeRow& row : rows) {
    if (row.fits && (!best || row.extra < best->extra)) best = &row;
  }
  return best;
}

TapeDiagnosis diagnose(const plan::Graph& graph, const TapeRequest& request) {
  TapeDiagnosis d{.source = request.source, .memory = request.memory, .oom = request.oom};
  d.facts = facts_of(graph);
  d.start_gradients = graph.events.empty() ? 0 : graph.events.front().gradient_bytes;
  d.added_state = missing_state(graph, request.optimizer, d.start_gradients);
  d.seconds = graph.seconds;
  d.operators = graph.ops.size();
  const plan::Outcome plain = plan::plain(graph), smallest = leanest(graph);
  d.at_peak = plain.at_peak;
  d.plain_bytes = plus(plain.peak_bytes, d.added_state);
  d.smallest_bytes = plus(smallest.peak_bytes, d.added_state);
  d.rows.push_back(plain_row(plain, d.added_state));
  for (const Policy& policy : named_policies()) d.rows.push_back(row_of(graph, policy, d.added_state));
  if (d.memory.bytes == 0) return d;
  for (TapeRow& row : d.rows) row.fits = row.peak_bytes <= d.memory.usable();
  d.planned = d.fits() ? std::nullopt : planned_row(graph, d);
  if (!d.advised()) look_further(d, smallest.at_peak);
  return d;
}

TapeDiagnosis diagnose(const TwoTapes& tapes, int64_t batch, const TapeRequest& request) {
  TapeDiagnosis d = diagnose(tapes.at(batch), request);
  d.batch = batch;
  if (d.memory.bytes > 0) find_batches(d, tapes);
  return d;
}

}  // namespace retrace::doctor
