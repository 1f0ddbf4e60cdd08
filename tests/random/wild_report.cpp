#include "wild_report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "generate.h"
#include "shrink.h"

namespace retrace::random {

namespace {

struct Failure {
  Program program;
  Finding finding;
};

// By what the failure is, where, and which statements it needs.
using Kind = std::string;

struct Kinds {
  std::map<Kind, int64_t> counts;
  std::map<Kind, std::vector<Failure>> smallest;  // a few of each, before shrinking
};

long long printable(int64_t n) { return static_cast<long long>(n); }

Kind kind_of(const Program& program, const Finding& finding, const WildRun& run) {
  const Kind kind = std::string(name(finding.fault)) + ", " + variant_names()[finding.variant];
  return run.blame ? kind + ": " + blame(program, finding, run.checks) : kind;
}

void note(Kinds& kinds, const Program& program, const Finding& finding, const WildRun& run) {
  const Kind kind = kind_of(program, finding, run);
  ++kinds.counts[kind];
  auto& failures = kinds.smallest[kind];
  failures.push_back({program, finding});
  std::stable_sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return a.program.statements.size() < b.program.statements.size();
  });
  if (failures.size() > static_cast<size_t>(run.shrunk_per_kind)) failures.pop_back();
}

Program shrunk(const Failure& failure, const WildChecks& checks) {
  return shrink(
      failure.program, [&](const Program& p) { return has_finding(p, failure.finding, checks); }, 600);
}

void print_kind(const Kind& kind, int64_t count, const std::vector<Failure>& failures, const WildRun& run) {
  Program best;
  const Failure* of = nullptr;
  for (const Failure& failure : failures) {
    *run.current_seed = failure.program.seed;
    Program small = shrunk(failure, run.checks);
    if (of != nullptr && small.statements.size() >= best.statements.size()) continue;
    best = std::move(small);
    of = &failure;
  }
  std::printf("\n%lld x %s\nseed %llu: %s\n", printable(count), kind.c_str(),
              static_cast<unsigned long long>(of->program.seed), of->finding.text.c_str());
  std::printf("shrunk to: %s", to_text(as_variant(best, of->finding.variant)).c_str());
  for (const Finding& f : check_variant(best, of->finding.variant, run.checks)) {
    if (f.fault == of->finding.fault) std::printf("  %s\n", f.text.c_str());
  }
  std::fflush(stdout);
}

void print_kinds(const Kinds& kinds, const WildRun& run) {
  std::vector<std::pair<int64_t, Kind>> order;
  for (const auto& [kind, count] : kinds.counts) order.emplace_back(-count, kind);
  std::sort(order.begin(), order.end());
  for (const auto& [count, kind] : order) std::printf("%7lld  %s\n", printable(-count), kind.c_str());
  for (size_t k = 0; k < order.size() && k < static_cast<size_t>(run.most_printed); ++k) {
    print_kind(order[k].second, -order[k].first, kinds.smallest.at(order[k].second), run);
  }
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

}  // namespace

int64_t run_wild(const WildRun& run) {
  WildTally tally;
  Kinds kinds;
  int64_t failed = 0;
  for (int64_t k = 0; k < run.count; ++k) {
    *run.current_seed = run.seed + static_cast<uint64_t>(k);
    const Program program = allowed_part(generate(*run.current_seed, Mode::wild), run.checks);
    bool found = false;
    for (size_t v = 0; v < variant_names().size(); ++v) {
      const bool wanted = run.checks.only.empty() ? v == 0 || run.checks.variants : variant_names()[v] == run.checks.only;
      if (!wanted) continue;
      for (const Finding& finding : check_variant(program, v, run.checks, &tally)) {
        note(kinds, program, finding, run);
        found = true;
      }
    }
    failed += found ? 1 : 0;
  }
  print_kinds(kinds, run);
  print_tally(tally);
  std::printf("%lld programs, %lld mismatches\n", printable(run.count), printable(failed));
  return failed;
}

}  // namespace retrace::random
