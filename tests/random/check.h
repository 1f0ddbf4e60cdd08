// Runs a program both ways and compares.
#pragma once

#include <cstdint>
#include <string>

#include "outcome.h"
#include "program.h"

namespace retrace::random {

// What a number of checks added up to: whether the test has teeth.
struct Tally {
  int64_t programs = 0;
  int64_t different = 0;
  int64_t raised = 0;
  int64_t refused = 0;
  int64_t unsteady = 0;  // plain LibTorch reads memory nobody wrote: nothing to compare with
  int64_t with_replay = 0;
  int64_t with_scopes = 0;
  int64_t statements = 0;
  int64_t gradients = 0;  // leaf gradients compared
  int64_t ops_recorded = 0;
  int64_t ops_replayed = 0;
  int64_t saved_tensors = 0;
  int64_t dropped_tensors = 0;
  int64_t values_verified = 0;
};

enum class Against { retrace, plain };  // plain against plain shows that the programs themselves are deterministic

Outcome run_retrace(const Program& program, const Outcome& plain);

// One session, several times the same program: what the first step shows, the later ones are planned by.
std::vector<Outcome> run_repeatedly(const Program& program, const Outcome& plain, int times);

// Whether plain LibTorch itself computes something else if fresh memory is filled with something else.
bool is_unsteady(const Program& program, const Outcome& plain);

Comparison check(const Program& program, Against against, Tally* tally = nullptr);

// Turns one bit of one gradient over, as a wrong replay would; false if the outcome has no gradient.
bool perturb_a_gradient(Outcome& outcome, uint64_t choice);

// Poisoned memory, everything recomputed, everything verified, for the rest of the process.
void become_hostile();

}  // namespace retrace::random
