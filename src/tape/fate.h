// What is to become of a value's content. Said here, and nowhere else: whoever keeps, forgets or rebuilds asks.
//
// Three have a say. The program: what has no recipe can only be held. The policy or the plan: its wish is noted with
// the value when that is made (note_wish). Memory: eviction and balance() take the wish back (`keep = false`) for what
// they let go of.
//
//   fate                 read by an op       saved by autograd     rebuilt in backward
//   root                 held                held                  -
//   unheld_root          op is no recipe     held                  -
//   keep                 held                held                  stays while pending
//   keep_if_saved        -                   held                  stays while pending
//   rebuild              -                   forgotten             stays while pending
//   rebuild_each_time    -                   forgotten             freed once it has been read
//
// "Held" is by the tape, in the value's kind; for a root that autograd saves, by the handle, in the tensor itself. What
// is forgotten may still be held instead of something larger (hold_if_better), or as a cut vertex (cuts.h).
#pragma once

#include "tape/tape.h"

namespace retrace {

class PolicyRules;

enum class Fate { root, unheld_root, keep, keep_if_saved, rebuild, rebuild_each_time };

Fate fate_of(const Tape& tape, ValueId value);
// The same when a scope saves the value. A scope that may not drop anything holds everything. A value of which a part
// was never written is held like a root: nobody knows what will be written there.
Fate fate_when_saved(const Tape& tape, ValueId value, bool scope_may_drop);

inline bool is_root(Fate fate) { return fate == Fate::root || fate == Fate::unheld_root; }
inline bool is_held_when_read(Fate fate) { return is_root(fate) || fate == Fate::keep; }
inline bool is_held_when_saved(Fate fate) { return is_held_when_read(fate) || fate == Fate::keep_if_saved; }

// An operator has made `value`, its result number `result`. Notes what the plan wants with it; without a budget, what
// the policy said: `policy_keeps`.
void note_wish(Tape& tape, ValueId value, size_t result, bool policy_keeps);

// Whether a scope forgets anything at all. Inside a step under a budget the budget decides, whatever the scope's policy
// is.
bool may_drop(const PolicyRules& rules, const BudgetedStep* budgeted_step);

}  // namespace retrace
