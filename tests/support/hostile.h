// The same suite is run a second time under hostile settings (RETRACE_HOSTILE=1): every policy recomputes everything,
// every scope verifies, memory is filled with NaN when allocated and when freed, work under no_grad soon is not
// recorded. Results must not change. A test that counts what a particular policy keeps says so with
// RETRACE_SKIP_IF_HOSTILE.
#pragma once

#include <gtest/gtest.h>

namespace retrace::test {

bool hostile();

}  // namespace retrace::test

#define RETRACE_SKIP_IF_HOSTILE() \
  if (::retrace::test::hostile()) GTEST_SKIP() << "counts what a policy keeps; here nothing is kept"
