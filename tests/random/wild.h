// What is checked of wild programs beside their bits: that no policy and no budget takes more memory than plain
// LibTorch.
//
// Each program runs as it is written, with all its scopes under each policy in turn, and as a whole in one step under a
// budget. All of these runs must see what the plain run sees.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "outcome.h"
#include "program.h"

namespace retrace::random {

struct WildChecks {
  bool exact = true;        // everything observed is the same, bit for bit
  bool peak = true;         // the peak is not above the plain run's
  bool plain_peak = true;   // keep_all() and the first step of budget("100%") take the plain peak exactly
  bool smallest = true;     // no refusal names more than the plain peak, and budget("100%") is never refused
  bool variants = true;     // beside the program as it is written
  bool in_child = false;    // try each run in a child first: a crash is then a finding like any other
  bool late = true;         // programs may have late_... statements
  bool outside = false;     // and outside_... ones: a documented limit
  int64_t slack_bytes = 0;  // a peak so far above plain is not reported
  std::string only;         // one variant alone
};

enum class Fault {
  crashed,
  bits,
  raised,
  leaked,
  budget,
  peak_above_plain,
  peak_not_plain,
  refused,
  smallest,
  kFaults
};
const char* name(Fault fault);
bool about_peaks(Fault fault);

struct Finding {
  size_t variant = 0;  // index into variant_names()
  Fault fault = Fault::bits;
  std::string text;
  double excess = 0;  // of a peak: how far above plain, as a share of it
};

struct WildTally {
  struct Row {
    int64_t runs = 0;
    int64_t with_replay = 0;
    int64_t refused = 0;  // with good reason
    int64_t unsteady = 0;
    int64_t below_plain = 0;  // of the runs whose peak was compared
    int64_t same_as_plain = 0;
    std::map<Fault, int64_t> faults;
    double largest_excess = 0;
  };
  std::map<size_t, Row> rows;  // by variant
};

const std::vector<std::string>& variant_names();

// The program as this variant runs it.
Program as_variant(const Program& program, size_t variant, const WildChecks& checks);

// What one run shows. `exactly`: its peak must be the plain one.
std::vector<Finding> findings_of(const Outcome& plain, const Outcome& other, const WildChecks& checks, bool exactly);

// At most one finding of each fault.
std::vector<Finding> check_variant(const Program& program, size_t variant, const WildChecks& checks,
                                   WildTally* tally = nullptr);

// The program without the statements that the checks leave out.
Program allowed_part(const Program& program, const WildChecks& checks);

// Whether the program fails in the same way.
bool has_finding(const Program& program, const Finding& finding, const WildChecks& checks);

bool is_wild(const Statement& statement);  // only wild programs have it

}  // namespace retrace::random
