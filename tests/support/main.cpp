#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <cstring>

#include <retrace/memory.h>

#include "support/hostile.h"
#include "testing/hooks.h"

namespace retrace::test {

bool hostile() {
  static const bool on = [] {
    const char* value = std::getenv("RETRACE_HOSTILE");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return on;
}

}  // namespace retrace::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  at::set_num_threads(1);  // bit-for-bit comparisons need one order of summation
  if (retrace::test::hostile()) {
    retrace::memory::set_poison(true);
    retrace::detail::set_verify_everything(true);
    retrace::detail::set_recompute_everything(true);
    retrace::detail::set_most_in_vain(2);
  }
  return RUN_ALL_TESTS();
}
