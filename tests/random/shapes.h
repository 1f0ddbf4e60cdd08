// One program at several sizes (resize.h), step after step in one session under a budget: steps that are new, that come
// back, and that are like others. Each is compared with the plain run, bit for bit, and its peak with the budget and,
// if it followed a plan, with what that predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <retrace/session.h>

#include "program.h"

namespace retrace::random {

// What is done with a program. Depends on its seed, and what is checked.
struct ShapesRun {
  bool in_percent = false;   // of the first step, as Retrace understands it; else in bytes
  int64_t percent = 100;     // of the largest step's plain peak, if in bytes
  bool best_effort = false;  // in bytes only: never refused
  bool eviction = false;     // a session of its own for each step: there is never a plan
  bool verify = false;
  Planning planning = Planning::background;

  static ShapesRun of(uint64_t seed);
  std::string text() const;
};

// What is a finding, beside wrong bits and a budget that is not kept.
struct ShapesChecks {
  bool smallest = true;   // a refusal that names more than the plain peak
  bool predicted = true;  // a peak that is not what the plan said, in a step that followed it
};

// Whether the test has teeth.
struct ShapesTally {
  int64_t programs = 0;  // that run at more than one size
  int64_t different = 0;
  int64_t unsteady = 0;  // plain LibTorch reads memory nobody wrote: nothing to compare with
  int64_t sizes = 0, steps = 0, followed = 0, rebuilding = 0, refusals = 0;
  int64_t predicted = 0;          // steps whose peak was compared with their plan's
  int64_t above_share = 0;        // steps under a budget in percent: of what was simulated, or the next was refused
  int64_t named_above_plain = 0;  // refusals: as a rule Retrace holds copies there of what is overwritten
  double largest_excess = 0;      // of those, as a share of plain
};

enum class ShapesFault { none, bits, budget, refusal, prediction, leak };
struct ShapesFinding {
  ShapesFault fault = ShapesFault::none;
  std::string text;  // what is wrong, and in which step
};

ShapesFinding check_shapes(const Program& program, const ShapesChecks& checks, ShapesTally* tally = nullptr);

// The programs that the steps run, and their order, for people.
std::string shapes_text(const Program& program);

// Seeds from `seed` on, `count` of them. Prints what it finds, shrunk, and the tally; returns how many programs were
// wrong.
int64_t run_shapes(uint64_t seed, int64_t count, const ShapesChecks& checks, int64_t most_printed,
                   volatile uint64_t& current_seed);

}  // namespace retrace::random
