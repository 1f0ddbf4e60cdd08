#include "wild_report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "generate.h"
#include "shrink.h"

namespace retrace::random {

namespace {

constexpr int kMostTrials = 600;

struct Failure {
  Program program;
  Finding finding;
};

// By what the failure is and, if programs are shrunk to know it, which statements it needs. Peaks also by variant;
// wrong bits are wrong anywhere.
using Kind = std::string;

struct Kinds {
  std::map<Kind, int64_t> counts;
  std::map<Kind, Failure> smallest;
};

long long printable(int64_t n) { return static_cast<long long>(n); }

Program shrunk(const Failure& failure, const WildChecks& checks) {
  return shrink(
      failure.program, [&](const Program& p) { return has_finding(p, failure.finding, checks); }, kMostTrials);
}

bool names_a_kind(const Statement& s) {
  static const std::set<std::string> everywhere = {"leaf", "region",   "step",    "end",
                                                   "loss", "backward", "no_grad", "enable_grad"};
  return everywhere.count(s.op) == 0;
}

// The wild statements of a shrunk program; the others if it has none.
std::string needed_statements(const Program& program) {
  std::set<std::string> names;
  const bool wild = std::any_of(program.statements.begin(), program.statements.end(), is_wild);
  for (const Statement& s : program.statements) {
    if (wild ? is_wild(s) : names_a_kind(s)) names.insert(s.op);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  return text.empty() ? "nothing else" : text;
}

Kind kind_of(const Failure& failure, const WildRun& run) {
  Kind kind = name(failure.finding.fault);
  if (about_peaks(failure.finding.fault)) kind += ", " + variant_names()[failure.finding.variant];
  if (!run.shrink_all) return kind;
  return kind + ": " + needed_statements(as_variant(failure.program, failure.finding.variant, run.checks));
}

// At once, so that a run that crashes or is ended has told what it found.
void print_finding(const Failure& failure) {
  std::fprintf(stderr, "seed %llu, %s: %s: %s\n", static_cast<unsigned long long>(failure.program.seed),
               variant_names()[failure.finding.variant].c_str(), name(failure.finding.fault),
               failure.finding.text.c_str());
}

void note(Kinds& kinds, Failure failure, const WildRun& run) {
  print_finding(failure);
  if (run.shrink_all) failure.program = shrunk(failure, run.checks);
  const Kind kind = kind_of(failure, run);
  ++kinds.counts[kind];
  const auto [known, is_new] = kinds.smallest.try_emplace(kind, failure);
  if (!is_new && failure.program.statements.size() < known->second.program.statements.size()) known->second = failure;
}

void print_kind(const Kind& kind, int64_t count, const Failure& failure, const WildRun& run) {
  *run.current_seed = failure.program.seed;
  const Program small = run.shrink_all ? failure.program : shrunk(failure, run.checks);
  const size_t variant = failure.finding.variant;
  std::printf("\n%lld x %s\nseed %llu, %s, shrunk to: %s", printable(count), kind.c_str(),
              static_cast<unsigned long long>(failure.program.seed), variant_names()[variant].c_str(),
              to_text(as_variant(small, variant, run.checks)).c_str());
  for (const Finding& f : check_variant(small, variant, run.checks)) {
    if (f.fault == failure.finding.fault) std::printf("  %s\n", f.text.c_str());
  }
  std::fflush(stdout);
}

void print_kinds(const Kinds& kinds, const WildRun& run) {
  std::vector<std::pair<int64_t, Kind>> order;
  for (const auto& [kind, count] : kinds.counts) order.emplace_back(-count, kind);
  std::sort(order.begin(), order.end());
  for (const auto& [count, kind] : order) std::printf("%7lld  %s\n", printable(-count), kind.c_str());
  for (size_t k = 0; k < order.size() && k < static_cast<size_t>(run.most_printed); ++k)
    print_kind(order[k].second, -order[k].first, kinds.smallest.at(order[k].second), run);
}

void print_tally(const WildTally& tally) {
  std::printf("%-14s %6s %6s %6s %6s %6s |", "", "runs", "replay", "refus.", "below", "same");
  for (size_t f = 0; f < static_cast<size_t>(Fault::kFaults); ++f) std::printf(" %s |", name(static_cast<Fault>(f)));
  std::printf(" largest excess | unsteady\n");
  for (const auto& [variant, row] : tally.rows) {
    std::printf("%-14s %6lld %6lld %6lld %6lld %6lld |", variant_names()[variant].c_str(), printable(row.runs),
                printable(row.with_replay), printable(row.refused), printable(row.below_plain),
                printable(row.same_as_plain));
    for (size_t f = 0; f < static_cast<size_t>(Fault::kFaults); ++f) {
      const auto found = row.faults.find(static_cast<Fault>(f));
      const int width = static_cast<int>(std::string(name(static_cast<Fault>(f))).size());
      std::printf(" %*lld |", width, printable(found == row.faults.end() ? 0 : found->second));
    }
    std::printf(" %12.1f %% | %8lld\n", 100 * row.largest_excess, printable(row.unsteady));
  }
}

bool is_wanted(size_t variant, const WildChecks& checks) {
  if (!checks.only.empty()) return variant_names()[variant] == checks.only;
  return variant == 0 || checks.variants;
}

}  // namespace

int64_t run_wild(const WildRun& run) {
  WildTally tally;
  Kinds kinds;
  int64_t failed = 0;
  for (int64_t k = 0; k < run.count; ++k) {
    *run.current_seed = run.seed + static_cast<uint64_t>(k);
    const Program program = allowed_part(generate(*run.current_seed, Mode::wild), run.checks);
    std::set<Fault> seen;
    for (size_t v = 0; v < variant_names().size(); ++v) {
      if (!is_wanted(v, run.checks)) continue;
      for (const Finding& finding : check_variant(program, v, run.checks, &tally)) {
        // One mistake shows under many policies.
        if (seen.insert(finding.fault).second || !run.shrink_all) note(kinds, {program, finding}, run);
      }
    }
    failed += seen.empty() ? 0 : 1;
  }
  print_kinds(kinds, run);
  print_tally(tally);
  std::printf("%lld programs, %lld mismatches\n", printable(run.count), printable(failed));
  return failed;
}

}  // namespace retrace::random
