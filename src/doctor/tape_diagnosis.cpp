#include "doctor/tape_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include <retrace/budget.h>
#include <retrace/errors.h>
#include <retrace/policy.h>

#include "plan/solve/plan.h"
#include "policy/predict.h"
#include "report/budget_plans.h"
#include "report/parallel.h"

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

// Of the plain step and of each named policy.
std::vector<plan::Outcome> outcomes_of(const plan::Graph& graph) {
  const auto policies = named_policies();
  std::vector<plan::Outcome> outcomes(policies.size() + 1);
  report::in_parallel(outcomes.size(),
                      [&](size_t i) { outcomes[i] = i == 0 ? plan::plain(graph) : predict(graph, policies[i - 1]); });
  return outcomes;
}

// The smallest budget; of a long step, for which that takes half a minute, the leanest named policy.
plan::Outcome leanest(const plan::Graph& graph, const std::vector<plan::Outcome>& outcomes) {
  if (graph.ops.size() <= kManyOperators) return plan::smallest(graph);
  return *std::min_element(outcomes.begin(), outcomes.end(),
                           [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
}

TapeRow plain_row(const plan::Outcome& plain, int64_t added) {
  return {.name = "as it is", .code = "// nothing to add", .peak_bytes = plus(plain.peak_bytes, added)};
}

TapeRow row_of(const plan::Outcome& outcome, const std::string& name, const plan::Graph& graph, int64_t added) {
  return {.name = name,
          .code = code_of(name),
          .peak_bytes = plus(outcome.peak_bytes, added),
          .extra = part_of(outcome.replay_seconds, graph.seconds)};
}

// Below what no plan moves, no search is needed.
int64_t least_conceivable(const plan::Graph& graph) {
  int64_t bytes = 0;
  for (const plan::Event& event : graph.events) bytes = std::max({bytes, event.other_bytes, event.other_peak});
  return bytes;
}

std::optional<TapeRow> planned_row(const plan::Graph& graph, const TapeDiagnosis& d) {
  const int64_t budget_bytes = d.memory.usable() - d.added_state;
  if (budget_bytes <= 0) return std::nullopt;
  if (budget_bytes < least_conceivable(graph)) return std::nullopt;
  report::BudgetPlans plans(graph, kSimulations * static_cast<int64_t>(graph.events.size()));
  const std::optional<report::BudgetPlan> found = plans.within(budget_bytes);
  if (!found) return std::nullopt;
  const plan::Plan& plan = found->plan;
  return TapeRow{
      .name = "budget",
      .code = session_code(fmt::format("retrace::budget(\"{}\")", retrace::budget(d.memory.usable()).text())),
      .peak_bytes = plus(plan.peak_bytes, d.added_state),
      .extra = part_of(plan.replay_seconds, graph.seconds),
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

// The largest batch whose peak stays within the memory, and one at which the peak is known to begin with. Peaks are
// maxima of straight lines, or nearly: the next guess is where the line through the last two points says. Where that
// stops helping, halves.
int64_t largest_batch(const std::function<int64_t(int64_t)>& peak, int64_t usable, int64_t batch, int64_t known_peak) {
  constexpr int64_t kMostBatch = int64_t{1} << 40;
  constexpr int kStraightTries = 8;
  const auto peak_or_none = [&](int64_t at) {
    try {
      return peak(at);
    } catch (const UsageError&) {
      return INT64_MAX;
    }
  };
  struct Point {
    int64_t batch = 0, peak = 0;
  };
  Point good{0, 0}, bad{kMostBatch, INT64_MAX}, last{0, 0}, now{batch, known_peak};
  for (int tries = 0;; ++tries) {
    (now.peak <= usable ? good : bad) = now;
    if (bad.batch - good.batch <= 1) return good.batch;
    int64_t guess = good.batch + (bad.batch - good.batch) / 2;
    if (bad.batch == kMostBatch) guess = 8 * good.batch;
    if (tries < kStraightTries && now.peak != INT64_MAX && last.peak != INT64_MAX) {
      const double slope = static_cast<double>(now.peak - last.peak) / static_cast<double>(now.batch - last.batch);
      if (slope > 0) {
        const double more = std::floor(static_cast<double>(usable - now.peak) / slope);
        guess = now.batch + static_cast<int64_t>(std::clamp(more, -1e12, 1e12));
      }
    }
    last = now;
    now.batch = std::clamp(guess, good.batch + 1, bad.batch - 1);
    now.peak = peak_or_none(now.batch);
  }
}

void find_batches(TapeDiagnosis& d, const TwoTapes& tapes) {
  const int64_t usable = d.memory.usable() - d.added_state;
  const auto find = [&](TapeRow& row, const std::function<int64_t(const plan::Graph&)>& peak) {
    row.largest_batch = largest_batch([&](int64_t batch) { return peak(tapes.at(batch)); }, usable, *d.batch,
                                      row.peak_bytes - d.added_state);
  };
  const auto policies = named_policies();
  // Policies that do the same (every 8th and every 16th, where there are fewer to keep) are looked at once.
  std::vector<size_t> same_as(d.rows.size());
  for (size_t i = 0; i < d.rows.size(); ++i) {
    same_as[i] = static_cast<size_t>(std::find_if(d.rows.begin(), d.rows.begin() + static_cast<std::ptrdiff_t>(i),
                                                  [&](const TapeRow& row) {
                                                    return row.peak_bytes == d.rows[i].peak_bytes &&
                                                           row.extra == d.rows[i].extra;
                                                  }) -
                                     d.rows.begin());
  }
  report::in_parallel(d.rows.size(), [&](size_t i) {
    if (same_as[i] != i) return;
    find(d.rows[i], [&](const plan::Graph& graph) {
      return i == 0 ? plan::plain(graph).peak_bytes : predict(graph, policies[i - 1]).peak_bytes;
    });
  });
  for (size_t i = 0; i < d.rows.size(); ++i) d.rows[i].largest_batch = d.rows[same_as[i]].largest_batch;
  if (!d.planned) return;
  d.planned->largest_batch = 0;
  for (const TapeRow& row : d.rows)  // a budget holds wherever a policy does
    d.planned->largest_batch = std::max(d.planned->largest_batch, row.largest_batch);
  if (d.operators > kManyOperators) return;
  const int64_t smallest = d.smallest_bytes - d.added_state;
  d.planned->largest_batch = std::max(
      d.planned->largest_batch, largest_batch([&](int64_t batch) { return plan::smallest(tapes.at(batch)).peak_bytes; },
                                              usable, *d.batch, smallest));
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
  const std::vector<plan::Outcome> outcomes = outcomes_of(graph);
  const plan::Outcome& plain = outcomes.front();
  const plan::Outcome smallest = leanest(graph, outcomes);
  d.at_peak = plain.at_peak;
  d.plain_bytes = plus(plain.peak_bytes, d.added_state);
  d.smallest_bytes = plus(smallest.peak_bytes, d.added_state);
  d.rows.push_back(plain_row(plain, d.added_state));
  const auto policies = named_policies();
  for (size_t i = 0; i < policies.size(); ++i)
    d.rows.push_back(row_of(outcomes[i + 1], policies[i].name(), graph, d.added_state));
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
