// Memory of tensors' blocks: what is freed can be used for as much again, whatever small things stay beside it.
#include <malloc.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/blocks.h"

namespace retrace::test::blocks {

size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.arena + info.hblkhd;
}

// What is kept beside each of many tensors that come and go, as a tape does.
void make_and_free(int times, int64_t bytes, std::vector<std::unique_ptr<char[]>>& small) {
  for (int i = 0; i < times; ++i) {
    const auto tensor = torch::empty({bytes}, torch::kByte);
    for (const size_t size : {24, 40, 56, 72, 104}) small.push_back(std::make_unique<char[]>(size));
  }
}

class BlocksOfASize : public testing::TestWithParam<int64_t> {};

TEST_P(BlocksOfASize, AreUsedAgainAlthoughSmallThingsStayBesideThem) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "another malloc";
#endif
  std::vector<std::unique_ptr<char[]>> small;
  small.reserve(2 * 5 * 500);
  make_and_free(500, GetParam(), small);
  const size_t before = heap_bytes();
  make_and_free(500, GetParam(), small);
  EXPECT_LT(heap_bytes(), before + (size_t{2} << 20)) << "of " << 500 * GetParam();
}

INSTANTIATE_TEST_SUITE_P(Each, BlocksOfASize, testing::Values(20'000, 60'000, 500'000));

TEST(Blocks, AreAlignedAsLibTorchExpects) {
  for (size_t bytes : {1, 64, 100, 70'000, 5'000'000}) {
    void* const block = memory::allocate_block(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % memory::kBlockAlignment, 0U);
    memory::deallocate_block(block, bytes);
  }
}

TEST(Blocks, OfALargeSizeThatWereFreedAreUsedFirst) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "nothing waits";
#endif
  void* const first = memory::allocate_block(1'000'000);
  memory::deallocate_block(first, 1'000'000);
  void* const other = memory::allocate_block(900'000);
  void* const second = memory::allocate_block(1'000'000);
  EXPECT_EQ(second, first);
  EXPECT_NE(other, first);
  memory::deallocate_block(other, 900'000);
  memory::deallocate_block(second, 1'000'000);
}

// Of 40 MB and more, which glibc maps one by one, so that we see them come and go. Nobody touches them.
void take_and_free(int times, size_t bytes) {
  std::vector<void*> blocks;
  for (int i = 0; i < times; ++i) blocks.push_back(memory::allocate_block(bytes));
  for (void* const block : blocks) memory::deallocate_block(block, bytes);
}

TEST(Blocks, ThatWaitAndThoseInUseAreHardlyMoreThanWereInUseAtOnce) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "nothing waits";
#endif
  const size_t before = mallinfo2().hblkhd;
  take_and_free(3, 44'000'000);
  EXPECT_GT(mallinfo2().hblkhd, before + 131'000'000) << "they wait";
  std::vector<void*> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(memory::allocate_block(43'000'000));
    EXPECT_LT(mallinfo2().hblkhd, before + 133'000'000 + (32 << 20)) << "with " << others.size() << " others";
  }
  for (void* const block : others) memory::deallocate_block(block, 43'000'000);
}

TEST(Blocks, ThatNobodyWantsForLongAreGivenBack) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "nothing waits";
#endif
  take_and_free(3, 44'000'000);
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(mallinfo2().hblkhd, 80'000'000U) << "after " << i;
    for (int turn = 0; turn < 18 * 132; ++turn) take_and_free(1, 1'000'000);
  }
  EXPECT_LT(mallinfo2().hblkhd, 44'000'000U);
}

TEST(Blocks, ThatCannotBeHadAreAnError) { EXPECT_THROW(memory::allocate_block(size_t{1} << 60), c10::Error); }

}  // namespace retrace::test::blocks
