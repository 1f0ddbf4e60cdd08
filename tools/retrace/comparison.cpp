#include "comparison.h"

#include <algorithm>
#include <chrono>

#include <ATen/Context.h>

#include <retrace/memory.h>
#include <retrace/stats.h>

#include "progress.h"
#include "report/median.h"
#include "runner.h"
#include "snapshot.h"

namespace retrace::cli {

namespace {

constexpr size_t kBetweenPlainSteps = 3;
constexpr uint64_t kStepSeed = 7;  // every step of every policy draws the same dropout masks

struct Contender {
  Runner runner;
  Measurement seen;
};

// As the peers do: gradients are gone before the step, so that those the step makes count in its peak.
void prepare(const models::Model& model) {
  for (const at::Tensor& parameter : model.parameters) parameter.mutable_grad().reset();
  at::manual_seed(kStepSeed);
}

// One step, with everything it took written into the contender's measurement. Bytes and counts are the same every time;
// should they ever not be, the largest is what a machine would have had to have.
StepResult measure(const models::Model& model, Contender& contender) {
  prepare(model);
  const int64_t base_bytes = memory::live_bytes();
  memory::reset_peak();
  const Stats before = stats();
  const auto begin = std::chrono::steady_clock::now();
  StepResult result = contender.runner.step(model);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  const Stats after = stats();
  Measurement& seen = contender.seen;
  seen.seconds.push_back(taken.count());
  seen.replay_seconds.push_back(after.replay_seconds - before.replay_seconds);
  const int64_t peak_bytes = memory::peak_bytes();
  const Session* const session = contender.runner.session();
  if (const auto plan = session ? session->plan() : std::nullopt) {
    if (peak_bytes > seen.peak_bytes) seen.predicted_peak_bytes = plan->peak_bytes;
    seen.unforeseen_bytes = std::max(seen.unforeseen_bytes, peak_bytes - plan->peak_bytes);
  }
  seen.peak_bytes = std::max(seen.peak_bytes, peak_bytes);
  seen.step_peak_bytes = std::max(seen.step_peak_bytes, peak_bytes - base_bytes);
  seen.activation_bytes = std::max(seen.activation_bytes, memory::activation_peak_bytes());
  seen.kept_bytes = std::max(seen.kept_bytes, result.turn_bytes - base_bytes);
  seen.ops_recorded = std::max(seen.ops_recorded, after.ops_recorded - before.ops_recorded);
  seen.ops_replayed = std::max(seen.ops_replayed, after.ops_replayed - before.ops_replayed);
  return result;
}

// Runs every contender once from the same weights, buffers and seed. The first one is the plain run.
void check(const models::Model& model, std::vector<Contender>& contenders, Progress& progress) {
  const Snapshot buffers = snapshot_of_buffers(model);
  Snapshot reference;
  for (Contender& contender : contenders) {
    const bool is_reference = &contender == &contenders.front();
    progress.show(model.name + ": checking " + contender.runner.name());
    buffers.restore(model.buffers);
    try {
      const Snapshot after = snapshot_of_step(model, measure(model, contender));
      if (is_reference) reference = after;
      const std::string label = reference.first_difference(after);
      if (!label.empty()) contender.seen.difference = label + " differs from the plain run";
    } catch (const std::exception& error) {
      if (is_reference) throw;
      contender.seen.difference = std::string("the step failed: ") + error.what();
    }
    contender.seen.seconds.clear();
    contender.seen.replay_seconds.clear();
    progress.advance();
  }
}

// Rounds in which everybody takes a turn, each beginning with another contender. A machine is slow for seconds or
// minutes at a time, so a step is compared with the plain steps before and after it, which are never far.
void time_rounds(const models::Model& model, const std::vector<Contender*>& contenders, int64_t rounds,
                 Progress& progress) {
  Contender& plain = *contenders.front();
  const std::vector<Contender*> others(contenders.begin() + 1, contenders.end());
  const auto time = [&](Contender& contender, int64_t round) {
    progress.show(model.name + ": round " + std::to_string(round + 1) + " of " + std::to_string(rounds) + ", " +
                  contender.runner.name());
    measure(model, contender);
    progress.advance();
    return contender.seen.seconds.back();
  };
  double before = time(plain, 0);
  std::vector<Measurement*> since;  // the latest plain step
  const auto compare_with_plain = [&](int64_t round) {
    const double after = time(plain, round);
    for (Measurement* seen : since) seen->ratios.push_back(seen->seconds.back() / ((before + after) / 2));
    since.clear();
    before = after;
  };
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t turn = 0; turn < others.size(); ++turn) {
      Contender& contender = *others[(static_cast<size_t>(round) + turn) % others.size()];
      time(contender, round);
      since.push_back(&contender.seen);
      if (since.size() == kBetweenPlainSteps) compare_with_plain(round);
    }
    if (!since.empty() || others.empty()) compare_with_plain(round);
  }
  plain.seen.ratios = {1};
}

// A session under a budget makes a plan in its second step and a better timed one in its third. Their bytes count.
void settle(const models::Model& model, const std::vector<Contender*>& contenders) {
  for (Contender* contender : contenders) {
    if (!contender->runner.session() || !contender->runner.session()->policy().name().starts_with("budget:")) continue;
    for (int i = 0; i < 2; ++i) measure(model, *contender);
    contender->seen.seconds.clear();
    contender->seen.replay_seconds.clear();
  }
}

// A budget that was not kept is a failure like a wrong gradient.
void judge_budget(Contender& contender) {
  const Session* const session = contender.runner.session();
  if (!session) return;
  Measurement& seen = contender.seen;
  seen.plan = session->plan();
  seen.budget_bytes = contender.runner.budget_bytes();
  if (!seen.budget_bytes && seen.plan) seen.budget_bytes = seen.plan->budget_bytes;
  if (!seen.budget_bytes) return;
  // Of a budget in percent the first step measures what that is.
  const bool first_counts = contender.runner.budget_bytes().has_value();
  const int64_t peak = std::max(seen.peak_bytes, first_counts ? seen.first_step_peak_bytes : 0);
  if (peak > *seen.budget_bytes) {
    seen.difference =
        "its peak of " + std::to_string(peak) + " bytes was above its budget of " + std::to_string(*seen.budget_bytes);
  }
}

std::vector<Contender> make_contenders(const models::Model& model, const std::vector<std::string>& policies) {
  std::vector<std::string> names = {"plain"};
  for (const std::string& policy : policies) {
    if (std::find(names.begin(), names.end(), policy) == names.end()) names.push_back(policy);
  }
  std::vector<Contender> contenders;
  for (const std::string& name : names) {
    contenders.push_back({Runner(name, model), {}});
    contenders.back().seen.policy = name;
  }
  return contenders;
}

}  // namespace

std::vector<Measurement> compare(const models::Model& model, const std::vector<std::string>& policies, int64_t rounds) {
  std::vector<Contender> contenders = make_contenders(model, policies);
  const memory::Watch watch(model.parameters);
  const auto count = static_cast<int64_t>(contenders.size());
  Progress progress(count + rounds * (count + count / static_cast<int64_t>(kBetweenPlainSteps)));
  check(model, contenders, progress);
  std::vector<Contender*> sound;
  for (Contender& contender : contenders) {
    if (contender.seen.gradients_identical()) sound.push_back(&contender);
  }
  // What verifying held in the check is no part of the figures.
  for (Contender* contender : sound) {
    const int64_t first_step_peak_bytes = contender->seen.peak_bytes;
    contender->seen = Measurement();
    contender->seen.policy = contender->runner.name();
    contender->seen.first_step_peak_bytes = first_step_peak_bytes;
  }
  settle(model, sound);
  time_rounds(model, sound, rounds, progress);
  for (Contender* contender : sound) judge_budget(*contender);
  std::vector<Measurement> measurements;
  for (Contender& contender : contenders) measurements.push_back(std::move(contender.seen));
  return measurements;
}

}  // namespace retrace::cli
