// What the tape lets go of when it looks at all it has: ops whose results nobody can ask for, values that nothing could
// come to need.
#pragma once

#include <functional>

#include "policy/sweeping.h"

namespace retrace {

class Tape;

// Drops ops whose results nothing can ask for any more.
void collect(Tape& tape);
void sweep_if_due(Tape& tape);  // at an event

// Of what the tape alone holds, lets go of what no handle could come to need, and of roots that are larger than what
// can be forgotten because of them (that is then held for good). Returns whether anything was freed.
bool let_go_idle(Tape& tape);
// The last resort: lets go of all roots that nothing forgotten needs. What could be rebuilt from them is then held for
// good, and the program takes what it takes without Retrace.
bool let_go_roots(Tape& tape);
bool let_go_roots(Tape& tape, const std::function<bool()>& is_enough);  // until it is

// Recording has ended: what no handle needs is dropped at once.
void close(Tape& tape);

}  // namespace retrace
