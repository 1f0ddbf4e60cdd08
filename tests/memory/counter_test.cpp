// The byte counter: exact live and peak bytes, limit, poison.
#include <torch/torch.h>

#include <retrace/retrace.h>

#include <thread>

#include "memory/allocator.h"
#include "support/counting.h"
#include "support/hostile.h"

namespace retrace::test::counter {

using torch::Tensor;

Tensor floats(int64_t n) { return torch::empty({n}); }

TEST(Counter, LiveBytesAreExactOnAllocateAndFree) {
  const int64_t before = memory::live_bytes();
  auto a = floats(1000);
  EXPECT_EQ(memory::live_bytes(), before + 4000);
  auto b = torch::empty({3}, torch::kByte);
  EXPECT_EQ(memory::live_bytes(), before + 4003);
  auto view = a.slice(0, 10, 20);
  EXPECT_EQ(memory::live_bytes(), before + 4003);
  a = Tensor();
  EXPECT_EQ(memory::live_bytes(), before + 4003) << "a view keeps its base";
  view = Tensor();
  EXPECT_EQ(memory::live_bytes(), before + 3);
  b = Tensor();
  EXPECT_EQ(memory::live_bytes(), before);
}

TEST(Counter, EmptyTensorsCostNothing) {
  const NothingLeaks nothing_leaks;
  const LiveDelta live;
  auto none = torch::empty({0, 5});
  auto copy = none.clone();
  EXPECT_EQ(live.bytes(), 0);
}

TEST(Counter, ResizingIsFollowed) {
  const NothingLeaks nothing_leaks;
  const LiveDelta live;
  auto a = floats(10);
  a.resize_({1000});
  EXPECT_EQ(live.bytes(), 4000);
  a.resize_({10});
  EXPECT_EQ(live.bytes(), 4000) << "LibTorch does not give storage back";
}

TEST(Counter, MemoryLibTorchDidNotAllocateIsNotCounted) {
  std::vector<float> mine(1000);
  const LiveDelta live;
  auto blob = torch::from_blob(mine.data(), {1000});
  EXPECT_EQ(live.bytes(), 0);
  auto copy = blob.clone();
  EXPECT_EQ(live.bytes(), 4000);
}

TEST(Counter, PeakIsTheMostLiveAtOnce) {
  memory::reset_peak();
  const int64_t before = memory::live_bytes();
  EXPECT_EQ(memory::peak_bytes(), before);
  {
    auto a = floats(1000);
    { auto b = floats(2000); }
    auto c = floats(500);
  }
  auto d = floats(10);
  EXPECT_EQ(memory::peak_bytes(), before + 12000);
  EXPECT_EQ(memory::at_peak().total(), memory::peak_bytes());
}

TEST(Counter, ResetPeakStartsAgainFromWhatIsLive) {
  { auto a = floats(100'000); }
  auto b = floats(10);
  memory::reset_peak();
  EXPECT_EQ(memory::peak_bytes(), memory::live_bytes());
  EXPECT_EQ(memory::at_peak().total(), memory::live_bytes());
}

TEST(Counter, ActivationPeakLeavesOutWeightsAndGradients) {
  auto w = floats(1000).requires_grad_();
  const memory::Watch watch({w});
  memory::reset_peak();
  const int64_t rest =
      memory::live_bytes() - memory::live_bytes(memory::Owner::weights) - memory::live_bytes(memory::Owner::gradients);
  EXPECT_EQ(memory::activation_peak_bytes(), rest);
  { auto a = floats(500); }
  EXPECT_EQ(memory::activation_peak_bytes(), rest + 2000);
  EXPECT_GE(memory::peak_bytes(), memory::activation_peak_bytes() + 4000);
}

TEST(Counter, AnAllocationAboveTheLimitThrowsOutOfMemoryAndAllocatesNothing) {
  const int64_t before = memory::live_bytes();
  memory::set_limit(before + 5000);
  EXPECT_EQ(memory::limit(), before + 5000);
  {
    auto fits = floats(1250);
    try {
      floats(1);
      FAIL() << "nothing was thrown";
    } catch (const c10::OutOfMemoryError& e) {
      const std::string text = e.what();
      for (const char* part : {"weights", "gradients", "kept", "rebuilt", "other"}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
      }
      EXPECT_NE(text.find(std::to_string(before + 5000)), std::string::npos) << text;
    }
    EXPECT_EQ(memory::live_bytes(), before + 5000);
  }
  memory::clear_limit();
  EXPECT_EQ(memory::limit(), std::nullopt);
  auto free_again = floats(10'000);
  EXPECT_EQ(memory::live_bytes(), before + 40'000);
}

TEST(Counter, RefusedAllocationsDoNotRaiseThePeak) {
  memory::reset_peak();
  const int64_t before = memory::live_bytes();
  memory::set_limit(before + 100);
  EXPECT_THROW(floats(1000), c10::OutOfMemoryError);
  memory::clear_limit();
  EXPECT_EQ(memory::peak_bytes(), before);
}

TEST(Counter, ALimitBelowWhatIsLiveIsRefusedAndTheOldOneStays) {
  auto a = floats(1000);
  memory::clear_limit();
  EXPECT_THROW(memory::set_limit(memory::live_bytes() - 1), UsageError);
  EXPECT_EQ(memory::limit(), std::nullopt);
  const int64_t good = memory::live_bytes() + 1000;
  memory::set_limit(good);
  EXPECT_THROW(memory::set_limit(3999), UsageError);
  EXPECT_EQ(memory::limit(), good);
  memory::clear_limit();
}

TEST(Counter, ALimitOfExactlyWhatIsLiveIsAllowed) {
  auto a = floats(1000);
  memory::set_limit(memory::live_bytes());
  EXPECT_THROW(floats(1), c10::OutOfMemoryError);
  memory::clear_limit();
}

TEST(Counter, PoisonFillsNewMemoryWithNaN) {
  memory::set_poison(true);
  auto a = torch::empty({1000});
  auto b = torch::empty({1000}, torch::kDouble);
  auto h = torch::empty({1000}, torch::kBFloat16);
  memory::set_poison(hostile());
  EXPECT_TRUE(a.isnan().all().item<bool>());
  EXPECT_TRUE(b.isnan().all().item<bool>());
  EXPECT_TRUE(h.isnan().all().item<bool>());
  EXPECT_FALSE(torch::zeros({1000}).isnan().any().item<bool>());
}

TEST(Counter, CountsAreExactWhenSeveralThreadsAllocate) {
  constexpr int kThreads = 4, kBlocks = 200;
  const int64_t before = memory::live_bytes();
  std::vector<std::vector<Tensor>> held(kThreads);
  std::vector<std::thread> workers;
  for (int t = 0; t < kThreads; ++t) {
    workers.emplace_back([&, t] {
      for (int i = 0; i < kBlocks; ++i) {
        auto temporary = floats(1 + i);
        held[t].push_back(floats(i));
      }
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(memory::live_bytes(), before + kThreads * 4 * kBlocks * (kBlocks - 1) / 2);
  held.clear();
  EXPECT_EQ(memory::live_bytes(), before);
}

TEST(Counter, PeakNeverFallsBelowWhatIsLive) {
  auto a = floats(1000);
  memory::reset_peak();
  a = Tensor();
  auto b = floats(100);
  EXPECT_GE(memory::peak_bytes(), memory::live_bytes());
  EXPECT_GE(memory::activation_peak_bytes(), 0);
}

TEST(TapeBlocks, WhatItTracksIsNotOtherUntilItIsClosed) {
  const int64_t before = memory::next_window().now;
  auto a = floats(1000), b = floats(100);
  {
    memory::TapeBlocks book;
    book.track(a.storage());
    book.track(b.storage());
    book.track(b.storage());
    EXPECT_EQ(memory::next_window().now, before);
    b = Tensor();
    EXPECT_EQ(memory::next_window().now, before) << "it was not among the other, so it does not leave them";
  }
  EXPECT_EQ(memory::next_window().now, before + 4000) << "it outlived the book";
  memory::TapeBlocks next;
  next.track(a.storage());
  EXPECT_EQ(memory::next_window().now, before);
  a = Tensor();
  EXPECT_EQ(memory::next_window().now, before);
}

TEST(TapeBlocks, ABlockThatOutlivedItsBookLeavesTheOther) {
  const int64_t before = memory::next_window().now;
  auto a = floats(1000);
  { memory::TapeBlocks().track(a.storage()); }
  memory::TapeBlocks unrelated;
  a = Tensor();
  EXPECT_EQ(memory::next_window().now, before);
}

}  // namespace retrace::test::counter
