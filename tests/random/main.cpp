// random_programs: makes random programs and compares Retrace with plain LibTorch, bit for bit.
//
//   random_programs --seed 7 --count 500       seeds 7 .. 506; each program depends on its own seed alone
//   random_programs --seed 123 --count 1       one again
//   random_programs --program-seed 123         print it
//   --hostile      memory poisoned, everything recomputed and verified (also: RETRACE_HOSTILE=1)
//   --plain-only   plain against plain: are the programs deterministic?
//   --self-check   turn over one bit of one gradient per program: every one must be found
//   --verbose      print every seed before it runs
//   --wild         also what users do behind LibTorch's back, and what wastes memory; compares peaks of memory too (wild.h)
//       Some change the number of threads: OMP_WAIT_POLICY=passive saves the time that idle threads spin.
//       --no-peak --no-plain-peak --no-smallest --no-exact   one check less
//       --slack BYTES  a peak so little above plain is not reported
//       --no-late --outside-writes   without late_... statements; with outside_... ones
//       --as-written   without running each program under every policy; --variant NAME: under one alone
//       --in-child     try each run in a child process first, so that a crash is a failure like any other
//       --shrink-all   shrink every failing program, and tell failures apart by the statements they need
//   --shapes       each program at several sizes, step after step in one session under a budget (shapes.h);
//       --no-smallest  a refusal may name more than the plain peak; --no-predicted  a peak may be another than its plan's
//   --failures N   print so many failures, shrunk; of wild programs so many kinds of failure
// Ends with "N programs, M mismatches"; exit code 1 if M is not 0.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include <c10/util/Logging.h>
#include <torch/torch.h>

#include "check.h"
#include "generate.h"
#include "shapes.h"
#include "shrink.h"
#include "wild_report.h"

namespace {

using namespace retrace::random;

struct Arguments {
  uint64_t seed = 0;
  int64_t count = 100;
  int64_t most_printed = 3;
  bool hostile = false;
  bool verbose = false;
  bool plain_only = false;
  bool self_check = false;
  bool print_only = false;
  bool wild = false;
  bool shapes = false;
  bool shrink_all = false;
  bool predicted = true;
  WildChecks checks;

  Mode mode() const { return wild ? Mode::wild : Mode::ordinary; }
};

volatile uint64_t current_seed = 0;

// A crash or a time-out must still say which program it was.
extern "C" void report_signal(int signal) {
  char text[96];
  const int n = std::snprintf(text, sizeof text, "\nsignal %d in the program of seed %llu\n", signal,
                              static_cast<unsigned long long>(current_seed));
  if (write(2, text, static_cast<size_t>(n)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int usage(const char* wrong) {
  std::fprintf(stderr, "random_programs: %s; see the head of tests/random/main.cpp\n", wrong);
  return 2;
}

bool parse_wild_flag(const std::string& word, Arguments& arguments) {
  WildChecks& checks = arguments.checks;
  const std::pair<const char*, bool*> on[] = {{"--wild", &arguments.wild},
                                              {"--shrink-all", &arguments.shrink_all},
                                              {"--outside-writes", &checks.outside},
                                              {"--in-child", &checks.in_child}};
  const std::pair<const char*, bool*> off[] = {{"--no-peak", &checks.peak},
                                               {"--no-plain-peak", &checks.plain_peak},
                                               {"--no-smallest", &checks.smallest},
                                               {"--no-exact", &checks.exact},
                                               {"--no-late", &checks.late},
                                               {"--as-written", &checks.variants},
                                               {"--no-predicted", &arguments.predicted}};
  for (const auto& [name, target] : on) {
    if (word == name) return *target = true;
  }
  for (const auto& [name, target] : off) {
    if (word == name) return !(*target = false);
  }
  return false;
}

// False if a word is not understood; it is then in `wrong`.
bool parse(int argc, char** argv, Arguments& arguments, std::string& wrong) {
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto flag = [&](const char* name, bool& target) { return word == name && (target = true); };
    if (flag("--hostile", arguments.hostile) || flag("--verbose", arguments.verbose) ||
        flag("--plain-only", arguments.plain_only) || flag("--self-check", arguments.self_check) ||
        flag("--shapes", arguments.shapes)) {
      continue;
    }
    if (parse_wild_flag(word, arguments)) continue;
    wrong = word;
    if (k + 1 >= argc) return false;
    if (word == "--variant") {
      arguments.checks.only = argv[++k];
      continue;
    }
    char* end = nullptr;
    const unsigned long long number = std::strtoull(argv[++k], &end, 10);
    if (*end != '\0' || end == argv[k]) return false;
    if (word == "--seed" || word == "--program-seed")
      arguments.seed = number;
    else if (word == "--count")
      arguments.count = static_cast<int64_t>(number);
    else if (word == "--failures")
      arguments.most_printed = static_cast<int64_t>(number);
    else if (word == "--slack")
      arguments.checks.slack_bytes = static_cast<int64_t>(number);
    else
      return false;
    arguments.print_only = arguments.print_only || word == "--program-seed";
  }
  return true;
}

void report(const Program& program, const Comparison& result, Against against) {
  std::printf("\nmismatch in the program of seed %llu: %s\n", static_cast<unsigned long long>(program.seed),
              result.text.c_str());
  const Program small = shrink(program, [&](const Program& p) {
    return !run_plain(p).unfair && check(p, against).verdict == Verdict::different;
  });
  std::printf("shrunk to: %s\n  %s\n", to_text(small).c_str(), check(small, against).text.c_str());
  std::fflush(stdout);
}

// A peak one byte higher, a bit of a gradient, a refusal that names one byte too much: each is a finding of its own.
bool notices_all(const Outcome& plain, const Outcome& wrong_gradient) {
  Outcome wrong = wrong_gradient;
  wrong.body_peak_bytes = plain.body_peak_bytes + 1;
  wrong.smallest_named = plain.body_peak_bytes + 1;
  return findings_of(plain, wrong, WildChecks{}, /*exactly=*/true).size() == 4;
}

// Counts programs whose perturbed gradient went unnoticed; of wild programs also other perturbations. Those are turned
// over in a plain outcome: what is tested is the test.
int64_t self_check(const Arguments& arguments) {
  int64_t missed = 0;
  int64_t perturbed = 0;
  for (int64_t k = 0; k < arguments.count; ++k) {
    const uint64_t seed = arguments.seed + static_cast<uint64_t>(k);
    current_seed = seed;
    const Program program = generate(seed, arguments.mode());
    const Outcome plain = run_plain(program);
    Outcome wrong = arguments.wild ? plain : run_retrace(program, plain);
    if (plain.thrown || wrong.thrown || !perturb_a_gradient(wrong, seed)) continue;
    ++perturbed;
    const bool noticed =
        arguments.wild ? notices_all(plain, wrong) : compare(plain, wrong).verdict == Verdict::different;
    missed += noticed ? 0 : 1;
  }
  std::printf("%lld programs with one bit of one gradient turned over, %lld not noticed\n",
              static_cast<long long>(perturbed), static_cast<long long>(missed));
  return perturbed == 0 ? 1 : missed;
}

void print_tally(const Tally& t) {
  const auto share = [&](int64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(t.programs, 1));
  };
  std::printf("%.1f statements per program, %lld leaf gradients compared\n",
              static_cast<double>(t.statements) / static_cast<double>(std::max<int64_t>(t.programs, 1)),
              static_cast<long long>(t.gradients));
  std::printf(
      "with a region or step %.1f %%, with replay %.1f %%, raised in both %.1f %%, refused with reason %.1f %%, "
      "unsteady in plain LibTorch %lld\n",
      share(t.with_scopes), share(t.with_replay), share(t.raised), share(t.refused),
      static_cast<long long>(t.unsteady));
  std::printf("operators recorded %lld, replayed %lld; tensors saved %lld, dropped %lld; values verified %lld\n",
              static_cast<long long>(t.ops_recorded), static_cast<long long>(t.ops_replayed),
              static_cast<long long>(t.saved_tensors), static_cast<long long>(t.dropped_tensors),
              static_cast<long long>(t.values_verified));
}

int64_t run_all(const Arguments& arguments) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const Against against = arguments.plain_only ? Against::plain : Against::retrace;
  Tally tally;
  for (int64_t k = 0; k < arguments.count; ++k) {
    current_seed = arguments.seed + static_cast<uint64_t>(k);
    if (arguments.verbose) std::printf("seed %llu\n", static_cast<unsigned long long>(current_seed));
    const Program program = generate(current_seed, arguments.mode());
    const Comparison result = check(program, against, &tally);
    if (result.verdict == Verdict::different && tally.different <= arguments.most_printed)
      report(program, result, against);
    if (terminal && k % 50 == 49) {
      std::printf("\r%lld of %lld, %lld mismatches ", static_cast<long long>(k + 1),
                  static_cast<long long>(arguments.count), static_cast<long long>(tally.different));
      std::fflush(stdout);
    }
  }
  if (terminal) std::printf("\r");
  print_tally(tally);
  std::printf("%lld programs, %lld mismatches\n", static_cast<long long>(tally.programs),
              static_cast<long long>(tally.different));
  return tally.different;
}

int64_t run(const Arguments& arguments) {
  if (arguments.self_check) return self_check(arguments);
  if (arguments.shapes) {
    return run_shapes(arguments.seed, arguments.count, {arguments.checks.smallest, arguments.predicted},
                      arguments.most_printed, current_seed);
  }
  if (!arguments.wild || arguments.plain_only) return run_all(arguments);
  WildRun run;
  run.seed = arguments.seed;
  run.count = arguments.count;
  run.most_printed = arguments.most_printed;
  run.shrink_all = arguments.shrink_all;
  run.current_seed = &current_seed;
  run.checks = arguments.checks;
  return run_wild(run);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string wrong;
  if (!parse(argc, argv, arguments, wrong)) return usage(("'" + wrong + "' is not understood").c_str());
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGTERM}) std::signal(signal, report_signal);
  torch::set_num_threads(1);  // sums must be added in the same order every time
  // Making a program throws and catches many errors; a symbolised backtrace for each would take most of the time.
  c10::SetStackTraceFetcher([] { return std::string(); });
  if (arguments.print_only) {
    const Program program = generate(arguments.seed, arguments.mode());
    std::printf("%s", (arguments.shapes ? shapes_text(program) : to_text(program)).c_str());
    return 0;
  }
  const char* hostile = std::getenv("RETRACE_HOSTILE");
  if (arguments.hostile || (hostile != nullptr && std::strcmp(hostile, "1") == 0)) become_hostile();
  const int64_t failures = run(arguments);
  return failures == 0 ? 0 : 1;
}
