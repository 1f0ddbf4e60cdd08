// Makes programs. The same seed gives the same program, on every run.
#pragma once

#include <cstdint>

#include "machine.h"
#include "program.h"

namespace retrace::random {

// Wild programs also do what users do behind LibTorch's back, waste memory, and have some larger tensors.
enum class Mode { ordinary, wild };

// A few in a hundred raise an error when run plain, on purpose; all others run to their end.
Program generate(uint64_t seed, Mode mode = Mode::ordinary);

// The program's outcome without Retrace.
Outcome run_plain(const Program& program);

// Takes out the writes that make a plain run raise (a saved tensor changed before backward), and only those; frees no
// graph that is needed again. False if the program raises for another reason; it is then unchanged.
bool remove_bad_writes(Program& program);

// Gives silent writes the names they deserve (late_..., outside_...; see Statement). Statements that do not run keep
// theirs.
void name_silent_writes(Program& program);

}  // namespace retrace::random
