// The same program for another batch: its leaves have other sizes, or a part of it runs more often.
#pragma once

#include <vector>

#include "dice.h"
#include "program.h"

namespace retrace::random {

// Some of the sizes that its leaves have are others, the same one everywhere. Need not run: a reshape may not fit any
// more.
Program with_other_sizes(const Program& program, Dice& dice);

// A few of its statements run once more, or twice, each time on what they made the time before, as a loop would that is
// longer. The program itself if it has none that could. Need not run.
Program with_a_longer_loop(const Program& program, Dice& dice);

// The program and up to `most` others made from it, all of which run without Retrace. Always the same for the same
// program.
std::vector<Program> in_several_sizes(const Program& program, size_t most);

}  // namespace retrace::random
