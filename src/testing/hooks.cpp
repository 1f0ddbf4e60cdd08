#include "testing/hooks.h"

#include <atomic>
#include <string>

namespace retrace::detail {
namespace {

std::atomic<bool> verify_all{false};
std::atomic<bool> recompute_all_policies{false};
std::atomic<int64_t> operators_until_failure{-1};
std::atomic<int64_t> in_vain{500};

}  // namespace

void set_verify_everything(bool on) { verify_all = on; }
bool verify_everything() { return verify_all.load(std::memory_order_relaxed); }

void set_recompute_everything(bool on) { recompute_all_policies = on; }
bool recompute_everything() { return recompute_all_policies.load(std::memory_order_relaxed); }

void set_most_in_vain(int64_t ops) { in_vain = ops; }
int64_t most_in_vain() { return in_vain.load(std::memory_order_relaxed); }

void fail_operator_after(int64_t n) { operators_until_failure = n; }

void maybe_fail_operator(const char* name) {
  if (operators_until_failure.load(std::memory_order_relaxed) < 0) return;
  if (operators_until_failure.fetch_sub(1) == 0) throw InjectedFault(std::string("injected fault at ") + name);
}

}  // namespace retrace::detail
