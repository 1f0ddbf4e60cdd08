#include "wild.h"

#include <algorithm>
#include <functional>

#include <retrace/memory.h>
#include <retrace/stats.h>

#include "generate.h"
#include "in_child.h"
#include "machine.h"
#include "may_leak.h"
#include "operators.h"
#include "shrink.h"
#include "testing/hooks.h"

namespace retrace::random {

namespace {

bool has_policy(const Statement& s) { return s.op == "region" || s.op == "step"; }

// A program without any scope would show nothing.
bool has_scope(const Program& program) {
  return std::any_of(program.statements.begin(), program.statements.end(), has_policy);
}

// In one step a write may come later than it was.
Program whole_program(const Program& program, int64_t policy, int64_t parameter, const WildChecks& checks) {
  Program whole = in_one_step(program, policy, parameter);
  name_silent_writes(whole);
  return allowed_part(whole, checks);
}

Program under(const Program& program, int64_t policy, const WildChecks& checks) {
  const int64_t parameter = policy == kEvery ? 2 : static_cast<int64_t>(program.seed % 65536);
  if (!has_scope(program)) return whole_program(program, policy, parameter, checks);
  Program changed = program;
  for (Statement& s : changed.statements) {
    if (!has_policy(s)) continue;
    s.ints[kPolicyKind] = policy;
    s.ints[kPolicyParameter] = parameter;
  }
  return changed;
}

Program under_budget(const Program& program, const WildChecks& checks) {
  const BudgetParameter parameter{40 + static_cast<int64_t>(program.seed % 60), program.seed % 3 == 0};
  return whole_program(program, kBudget, parameter.packed(), checks);
}

struct Variant {
  std::string name;
  std::function<Program(const Program&, const WildChecks&)> of;
};

enum VariantNumber : size_t { kAsWritten, kUnderKeepAll };

const std::vector<Variant>& variants() {
  using Checks = const WildChecks&;
  static const std::vector<Variant> all = {
      {"as written", [](const Program& p, Checks) { return p; }},
      {"keep_all", [](const Program& p, Checks c) { return under(p, kKeepAll, c); }},
      {"recompute_all", [](const Program& p, Checks c) { return under(p, kRecomputeAll, c); }},
      {"every", [](const Program& p, Checks c) { return under(p, kEvery, c); }},
      {"selective",
       [](const Program& p, Checks c) { return under(p, p.seed % 2 == 0 ? kSelective : kSelectiveDefault, c); }},
      {"custom", [](const Program& p, Checks c) { return under(p, kCustom, c); }},
      {"budget", under_budget},
      {"100%", [](const Program& p, Checks c) { return whole_program(p, kBudgetOfFirstStep, 100, c); }},
  };
  return all;
}

bool is_percent(size_t variant) { return variants()[variant].name == "100%"; }

Fault fault_of(const Outcome& plain, const Outcome& other, const Comparison& result) {
  if (other.broken_budget == result.text) return Fault::budget;
  if (plain.thrown.has_value() != other.thrown.has_value() ||
      (plain.thrown && plain.thrown->statement != other.thrown->statement)) {
    return other.thrown && other.thrown->infeasible ? Fault::refused : Fault::raised;
  }
  return result.text.find("still live") != std::string::npos ? Fault::leaked : Fault::bits;
}

std::string peaks_text(const char* relation, const Outcome& plain, const Outcome& other) {
  return "peak " + std::to_string(other.body_peak_bytes) + relation + std::to_string(plain.body_peak_bytes);
}

// The same session three times: the first step is measured, the others follow its plan.
constexpr int kSteps = 3;

struct Judged {
  std::vector<Finding> findings;  // at most one of each fault
  bool refused = false;
  Outcome plain;
  Outcome last;

  void add(Outcome other, size_t variant, const WildChecks& checks, bool exactly) {
    for (Finding& f : findings_of(plain, other, checks, exactly)) {
      const bool known =
          std::any_of(findings.begin(), findings.end(), [&](const Finding& g) { return g.fault == f.fault; });
      f.variant = variant;
      if (!known) findings.push_back(std::move(f));
    }
    refused |= compare(plain, other).verdict == Verdict::refused;
    last = std::move(other);
  }
};

Judged run_and_judge(const Program& program, size_t variant, const WildChecks& checks) {
  Judged result;
  result.plain = run_plain(program);
  if (result.plain.unfair) return result;
  result.plain.peak_bytes =
      result.plain.body_peak_bytes;  // what budgets are a share of: no bytes but the program's own
  if (is_percent(variant)) {
    std::vector<Outcome> outcomes = run_repeatedly(program, result.plain, kSteps);
    for (size_t k = 0; k < outcomes.size(); ++k) result.add(std::move(outcomes[k]), variant, checks, k == 0);
  } else {
    const bool exactly = variant == kUnderKeepAll && !detail::recompute_everything();
    result.add(run_retrace(program, result.plain), variant, checks, exactly);
  }
  return result;
}

void add_to_row(WildTally::Row& row, const Judged& judged, const Stats& before) {
  if (judged.plain.unfair) return;
  ++row.runs;
  row.with_replay += stats().ops_replayed > before.ops_replayed;
  row.refused += judged.refused;
  if (!judged.plain.thrown && !judged.last.thrown) {
    row.below_plain += judged.last.body_peak_bytes < judged.plain.body_peak_bytes;
    row.same_as_plain += judged.last.body_peak_bytes == judged.plain.body_peak_bytes;
  }
  for (const Finding& f : judged.findings) {
    ++row.faults[f.fault];
    row.largest_excess = std::max(row.largest_excess, f.excess);
  }
}

// Not Retrace's fault: plain LibTorch computes something else itself if fresh memory is filled otherwise, or its own
// peak moves (gradients that an earlier exception left in the engine's queue are freed). LibTorch also allocates some
// things once per process; a wrong peak must come twice.
void drop_unsteady(Judged& judged, const Program& program, size_t variant, const WildChecks& checks,
                   WildTally::Row* row) {
  if (judged.findings.empty()) return;
  const bool unsteady = is_unsteady(program, judged.plain);
  const bool unsteady_peak = run_plain(program).body_peak_bytes != judged.plain.body_peak_bytes;
  const std::vector<Finding> again = run_and_judge(program, variant, checks).findings;
  std::vector<Finding> kept;
  for (Finding& f : judged.findings) {
    const bool repeats = std::any_of(again.begin(), again.end(), [&](const Finding& g) { return g.fault == f.fault; });
    if (unsteady || (about_peaks(f.fault) && (unsteady_peak || !repeats))) continue;
    if (!repeats) f.text += " (not every time)";
    kept.push_back(std::move(f));
  }
  if (row != nullptr && kept.size() < judged.findings.size()) ++row->unsteady;
  judged.findings = std::move(kept);
}

// A child would wait for the threads of its parent.
bool changes_threads(const Program& program) {
  return std::any_of(program.statements.begin(), program.statements.end(), [](const Statement& s) {
    return s.op == "threads" || (s.op == "wide_sum" && (s.ints.at(0) != 0 || s.ints.at(1) != 0));
  });
}

Program without_kind(const Program& program, const std::function<bool(const Statement&)>& unwanted) {
  std::set<size_t> removed;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    if (unwanted(program.statements[i])) removed.insert(i);
  }
  return without(program, removed);
}

}  // namespace

const char* name(Fault fault) {
  constexpr const char* kNames[] = {"crashed",        "bits",          "raised",
                                    "leaked",         "budget broken", "peak above plain",
                                    "peak not plain", "refused",       "smallest above plain"};
  return kNames[static_cast<size_t>(fault)];
}

bool about_peaks(Fault fault) {
  return fault == Fault::peak_above_plain || fault == Fault::peak_not_plain || fault == Fault::smallest;
}

std::vector<Finding> findings_of(const Outcome& plain, const Outcome& other, const WildChecks& checks, bool exactly) {
  std::vector<Finding> findings;
  const auto add = [&](bool wanted, Fault fault, std::string text, double excess = 0) {
    if (wanted) findings.push_back({0, fault, std::move(text), excess});
  };
  const Comparison result = compare(plain, other);
  if (result.verdict == Verdict::different) {
    const Fault fault = fault_of(plain, other, result);
    add(fault == Fault::refused ? checks.smallest : checks.exact, fault, result.text);
  }
  if (other.smallest_named > plain.body_peak_bytes) {
    add(checks.smallest, Fault::smallest,
        "a refusal named " + std::to_string(other.smallest_named) + ", above plain " +
            std::to_string(plain.body_peak_bytes));
  }
  if (plain.thrown || other.thrown) return findings;
  const double excess = static_cast<double>(other.body_peak_bytes) / static_cast<double>(plain.body_peak_bytes) - 1;
  if (other.body_peak_bytes > plain.body_peak_bytes + checks.slack_bytes)
    add(checks.peak, Fault::peak_above_plain, peaks_text(" above plain ", plain, other), excess);
  // What LibTorch itself leaks (x.mul_(x) refers to itself), it may have had live at its peak; with Retrace it is
  // freed.
  const int64_t least = plain.body_peak_bytes - std::max<int64_t>(plain.leaked_bytes, 0);
  if (exactly && (other.body_peak_bytes > plain.body_peak_bytes || other.body_peak_bytes < least))
    add(checks.plain_peak, Fault::peak_not_plain, peaks_text(" instead of plain ", plain, other), excess);
  return findings;
}

const std::vector<std::string>& variant_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Variant& v : variants()) all.push_back(v.name);
    return all;
  }();
  return names;
}

Program as_variant(const Program& program, size_t variant, const WildChecks& checks) {
  return variants()[variant].of(program, checks);
}

std::vector<Finding> check_variant(const Program& program, size_t variant, const WildChecks& checks, WildTally* tally) {
  const Program run = as_variant(program, variant, checks);
  WildTally::Row* row = tally != nullptr ? &tally->rows[variant] : nullptr;
  if (checks.in_child && !changes_threads(run) && crashes([&] { run_and_judge(run, variant, checks); })) {
    if (row != nullptr) ++row->runs, ++row->faults[Fault::crashed];
    return {{variant, Fault::crashed, "the process was ended by a signal", 0}};
  }
  const Stats before = stats();
  Judged judged = run_and_judge(run, variant, checks);
  drop_unsteady(judged, run, variant, checks, row);
  if (row != nullptr) add_to_row(*row, judged, before);
  return judged.findings;
}

Program allowed_part(const Program& program, const WildChecks& checks) {
  return without_kind(program, [&](const Statement& s) {
    const Lateness lateness = lateness_of(s.op);
    return (lateness == Lateness::late && !checks.late) || (lateness == Lateness::outside && !checks.outside);
  });
}

bool has_finding(const Program& program, const Finding& finding, const WildChecks& checks) {
  const auto found = check_variant(program, finding.variant, checks);
  return std::any_of(found.begin(), found.end(), [&](const Finding& f) { return f.fault == finding.fault; });
}

bool is_wild(const Statement& statement) {
  const auto& table = wild_table();
  const std::string op = without_lateness(statement.op);
  return std::any_of(table.begin(), table.end(), [&](const Operator& row) { return op == row.name; });
}

}  // namespace retrace::random
