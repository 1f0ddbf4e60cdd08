// Makes a failing program small enough to read.
#pragma once

#include <functional>
#include <set>

#include "program.h"

namespace retrace::random {

// Removes statements, scopes, held values and options one after another while `fails` stays true. Asks at most
// `most_trials` times; a program that does not fail at all comes back as it is.
Program shrink(Program program, const std::function<bool(const Program&)>& fails, int most_trials = 1500);

// The program without these statements, without what needs their results, and with its scopes still paired.
Program without(const Program& program, const std::set<size_t>& removed);

}  // namespace retrace::random
