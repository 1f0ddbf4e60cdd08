#include "check.h"

#include <retrace/memory.h>
#include <retrace/stats.h>

#include "generate.h"
#include "machine.h"
#include "may_leak.h"
#include "testing/hooks.h"

namespace retrace::random {

namespace {

bool is_gradient(const Observation& o) { return o.what.rfind("gradient", 0) == 0 && !o.content.empty(); }

Outcome run_and_count_bytes(const Program& program, Budgets& budgets) {
  const int64_t before = memory::live_bytes();
  budgets.start_bytes = before;
  budgets.refused.reset();
  Outcome outcome;
  {
    const auto scopes = retrace_scopes(budgets);
    outcome = Machine(program, *scopes).run();
  }
  outcome.leaked_bytes = memory::live_bytes() - before;
  outcome.broken_budget = budgets.broken;
  outcome.smallest_named = budgets.smallest_named;
  return outcome;
}

// A refused budget names the smallest that does; with that the program must run. Each session has a step that may need
// more than those before it.
constexpr int kMostRefusals = 12;

Outcome run_within_budgets(const Program& program, const Outcome& plain) {
  Budgets budgets;
  budgets.plain_peak = plain.peak_bytes;
  Outcome outcome = run_and_count_bytes(program, budgets);
  for (int k = 0; k < kMostRefusals && outcome.thrown && outcome.thrown->infeasible && budgets.broken.empty(); ++k) {
    outcome = run_and_count_bytes(program, budgets);
  }
  return outcome;
}

void add_to(Tally& tally, const Program& program, const Outcome& outcome, const Comparison& result,
            const Stats& before) {
  const Stats after = stats();
  tally.programs++;
  tally.different += result.verdict == Verdict::different;
  tally.raised += result.verdict == Verdict::both_raised;
  tally.refused += result.verdict == Verdict::refused;
  tally.with_replay += after.ops_replayed > before.ops_replayed;
  tally.with_scopes += after.steps > before.steps;
  tally.statements += static_cast<int64_t>(program.statements.size());
  tally.gradients += std::count_if(outcome.observations.begin(), outcome.observations.end(), is_gradient);
  tally.ops_recorded += after.ops_recorded - before.ops_recorded;
  tally.ops_replayed += after.ops_replayed - before.ops_replayed;
  tally.saved_tensors += after.saved_tensors - before.saved_tensors;
  tally.dropped_tensors += after.dropped_tensors - before.dropped_tensors;
  tally.values_verified += after.values_verified - before.values_verified;
}

}  // namespace

// Some kernels read beyond what was given to them, or before they wrote: LibTorch 1.13's BatchNorm with strided
// weights, GELU's backward. With fresh memory filled otherwise the plain program then computes something else itself.
bool is_unsteady(const Program& program, const Outcome& plain) {
  memory::set_poison(true);
  const Outcome poisoned = run_plain(program);
  memory::set_poison(detail::verify_everything());  // on again if we are hostile
  return compare(plain, poisoned).verdict == Verdict::different;
}

Outcome run_retrace(const Program& program, const Outcome& plain) {
  const MayLeak may_leak(plain.leaked_bytes > 0);
  Outcome outcome = run_within_budgets(program, plain);
  // LibTorch allocates a few things once per process, the first time they are needed. A leak repeats.
  if (outcome.leaked_bytes != 0) outcome = run_within_budgets(program, plain);
  return outcome;
}

std::vector<Outcome> run_repeatedly(const Program& program, const Outcome& plain, int times) {
  const MayLeak may_leak(plain.leaked_bytes > 0);
  Budgets budgets;
  budgets.plain_peak = plain.peak_bytes;
  const auto scopes = retrace_scopes(budgets);
  std::vector<Outcome> outcomes;
  for (int k = 0; k < times && (outcomes.empty() || !outcomes.back().thrown); ++k) {
    budgets.start_bytes = memory::live_bytes();
    outcomes.push_back(Machine(program, *scopes).run());
    outcomes.back().broken_budget = budgets.broken;
    outcomes.back().smallest_named = budgets.smallest_named;
  }
  return outcomes;
}

Comparison check(const Program& program, Against against, Tally* tally) {
  const Outcome plain = run_plain(program);
  const Stats before = stats();
  const Outcome other = against == Against::plain ? run_plain(program) : run_retrace(program, plain);
  Comparison result = compare(plain, other);
  if (result.verdict == Verdict::different && against == Against::retrace && is_unsteady(program, plain)) {
    result = {Verdict::refused, {}};
    if (tally != nullptr) ++tally->unsteady;
  }
  if (tally != nullptr) add_to(*tally, program, other, result, before);
  return result;
}

bool perturb_a_gradient(Outcome& outcome, uint64_t choice) {
  std::vector<Observation*> gradients;
  for (Observation& o : outcome.observations) {
    if (is_gradient(o)) gradients.push_back(&o);
  }
  if (gradients.empty()) return false;
  std::string& bytes = gradients[choice % gradients.size()]->content;
  bytes[choice / 7 % bytes.size()] ^= static_cast<char>(1 << choice % 8);
  return true;
}

void become_hostile() {
  memory::set_poison(true);
  detail::set_verify_everything(true);
  detail::set_recompute_everything(true);
  detail::set_most_in_vain(2);
}

}  // namespace retrace::random
