#include "tape/evict.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "store/kind.h"
#include "tape/tape.h"

namespace retrace::test::evict {

// Between the search for the cheapest value of all tapes and its eviction, another thread's backward may have let go of
// it.
TEST(Evict, WhatIsNotHeldAnyMoreCannotGo) {
  Tape tape{false, nullptr};
  const at::Tensor result = at::ones({1024});
  const ValueId made = tape.add_fresh(result, /*producer=*/0);
  for (const store::Kind* const kind : store::kinds(/*with_lossy=*/false)) {
    EXPECT_FALSE(Eviction(tape).evict({made, 0, kind}));
  }
}

}  // namespace retrace::test::evict
