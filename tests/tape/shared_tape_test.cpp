#include "tape/shared_tape.h"

#include <gtest/gtest.h>

#include <thread>

#include <retrace/errors.h>

namespace retrace::test::shared_tape {

c10::Storage never(Tape&, ValueId) { throw std::logic_error("nothing is to be rebuilt"); }

TEST(SharedTape, AThreadCannotLockItsTapeTwice) {
  SharedTape tape(false, &never);
  const SharedTape::Lock lock(tape);
  EXPECT_THROW(SharedTape::Lock{tape}, InternalError);
  EXPECT_FALSE(SharedTape::Lock(tape, std::try_to_lock).has_it());
  EXPECT_TRUE(SharedTape::Lock::is_held(tape)) << "the attempt took away the lock that there was";
}

TEST(SharedTape, AnEntryGoesOnWithTheLockItsThreadHas) {
  SharedTape tape(false, &never), other(false, &never);
  EXPECT_FALSE(SharedTape::Lock::is_any_held());
  {
    const SharedTape::Lock lock(tape);
    const SharedTape::Lock lock_of_other(other);
    const SharedTape::Entry entry(tape), entry_of_other(other, /*may_wait=*/false);
    EXPECT_EQ(&*entry, &*lock);
    EXPECT_EQ(&*entry_of_other, &*lock_of_other);
  }
  EXPECT_FALSE(SharedTape::Lock::is_any_held());
  {
    const SharedTape::Entry entry(tape);
    EXPECT_TRUE(SharedTape::Lock::is_held(tape));
  }
  EXPECT_FALSE(SharedTape::Lock::is_any_held());
}

TEST(SharedTape, AnotherThreadsLockIsNotOnesOwn) {
  SharedTape tape(false, &never);
  const SharedTape::Lock lock(tape);
  std::thread([&] {
    EXPECT_FALSE(SharedTape::Lock::is_any_held());
    EXPECT_FALSE(SharedTape::Lock(tape, std::try_to_lock).has_it());
    EXPECT_FALSE(SharedTape::Entry(tape, /*may_wait=*/false).has_it());
  }).join();
}

}  // namespace retrace::test::shared_tape
