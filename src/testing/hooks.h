// Switches for tests: hostile settings and injected faults. Process-wide, off by default, not installed.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "memory/allocator.h"

namespace retrace::detail {

struct InjectedFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Every scope verifies, whatever its options say.
void set_verify_everything(bool on);
bool verify_everything();

// Every policy behaves as recompute_all.
void set_recompute_everything(bool on);
bool recompute_everything();

// After so many operators under no_grad of which autograd saved nothing, the next are not recorded.
void set_most_in_vain(int64_t ops);
int64_t most_in_vain();

// The n-th operator that is recorded or replayed from now on (0: the next) throws InjectedFault before it runs, once.
// Negative: none does.
void fail_operator_after(int64_t n);
void maybe_fail_operator(const char* name);  // called by recorder and replay

using memory::fail_allocation_after;

}  // namespace retrace::detail
