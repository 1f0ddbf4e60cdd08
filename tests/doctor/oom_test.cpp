// Out-of-memory messages, as they were written by several versions.
#include "doctor/oom.h"

#include <cmath>

#include <gtest/gtest.h>

#include <retrace/errors.h>

namespace retrace::doctor {
namespace {

constexpr double kMi = 0x1p20, kGi = 0x1p30;

void expect_bytes(const std::optional<int64_t>& bytes, double amount) {
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, static_cast<int64_t>(std::round(amount)));
}

TEST(OomMessage, OfPyTorchBeforeTwoPointOneIsRead) {
  const auto m = read_oom(
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; 77.10 GiB "
      "already "
      "allocated; 1.20 GiB free; 77.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try "
      "setting max_split_size_mb to avoid fragmentation.");
  EXPECT_EQ(m.source, OomSource::gpu);
  expect_bytes(m.tried_bytes, 2 * kGi);
  expect_bytes(m.capacity_bytes, 79.15 * kGi);
  expect_bytes(m.allocated_bytes, 77.1 * kGi);
  expect_bytes(m.free_bytes, 1.2 * kGi);
  EXPECT_NEAR(static_cast<double>(*m.cached_bytes), 0.4 * kGi, 2);
  EXPECT_NEAR(static_cast<double>(*m.at_least_bytes()), 79.1 * kGi, 2);
  EXPECT_FALSE(m.fragmented());
}

TEST(OomMessage, OfPyTorchTwoIsRead) {
  const auto m = read_oom(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of 23.65 "
      "GiB of which "
      "11.06 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of the allocated "
      "memory 22.90 "
      "GiB is allocated by PyTorch, and 194.87 MiB is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is "
      "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
  expect_bytes(m.tried_bytes, 22 * kMi);
  expect_bytes(m.capacity_bytes, 23.65 * kGi);
  expect_bytes(m.free_bytes, 11.06 * kMi);
  expect_bytes(m.allocated_bytes, 22.9 * kGi);
  expect_bytes(m.cached_bytes, 194.87 * kMi);
  EXPECT_TRUE(m.fragmented());
}

TEST(OomMessage, WithAMisspelledCapacityAndNoBytesFreeIsRead) {
  const auto m = read_oom(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 "
      "GiB of "
      "which 0 bytes is free. Process 4711 has 5.9 GiB memory in use. Of the allocated memory 2.93 GiB is allocated by "
      "PyTorch, "
      "and 2.30 GiB is reserved by PyTorch but unallocated.");
  expect_bytes(m.capacity_bytes, 6 * kGi);
  expect_bytes(m.free_bytes, 0);
  EXPECT_NEAR(static_cast<double>(*m.outside_bytes), 0.77 * kGi, 2);
}

TEST(OomMessage, OfTheFirstPyTorchIsRead) {
  const auto m = read_oom(
      "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB "
      "already "
      "allocated; 9.28 GiB free; 4.68 MiB cached)");
  expect_bytes(m.tried_bytes, 12.5 * kMi);
  expect_bytes(m.free_bytes, 9.28 * kGi);
  expect_bytes(m.cached_bytes, 4.68 * kMi);
}

TEST(OomMessage, OfMetalIsRead) {
  const auto m = read_oom(
      "RuntimeError: MPS backend out of memory (MPS allocated: 18.04 GB, other allocations: 94.99 MB, max allowed: "
      "18.13 GB). "
      "Tried to allocate 20.00 MB on private pool.");
  EXPECT_EQ(m.source, OomSource::mps);
  expect_bytes(m.tried_bytes, 20 * kMi);
  expect_bytes(m.capacity_bytes, 18.13 * kGi);
  expect_bytes(m.allocated_bytes, 18.04 * kGi);
}

TEST(OomMessage, OfTheCpuAllocatorIsRead) {
  for (const char* text : {"[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: "
                           "you tried to allocate "
                           "137438953472 bytes. Error code 12 (Cannot allocate memory)",
                           "[enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not "
                           "enough memory: you tried to "
                           "allocate 137438953472 bytes."}) {
    const auto m = read_oom(text);
    EXPECT_EQ(m.source, OomSource::cpu);
    expect_bytes(m.tried_bytes, 137438953472.0);
    EXPECT_FALSE(m.capacity_bytes);
    EXPECT_FALSE(m.at_least_bytes());
  }
}

TEST(OomMessage, OfRetracesLimitIsRead) {
  const auto m = read_oom(
      "[retrace::memory] an allocation of 1048576 bytes would bring the live bytes from 99614720 above the limit of "
      "100000000, "
      "so it was refused. Held by: weights 56832000, gradients 0, kept 40000000, rebuilt 2782720, other 0. Raise the "
      "limit, or "
      "keep less with a retrace policy.");
  EXPECT_EQ(m.source, OomSource::retrace_limit);
  expect_bytes(m.tried_bytes, 1048576);
  expect_bytes(m.capacity_bytes, 100000000);
  ASSERT_EQ(m.owners.size(), 5U);
  EXPECT_EQ(m.owners[2].name, "kept");
  EXPECT_EQ(m.owners[2].bytes, 40000000);
}

TEST(OomMessage, OfARefusedBudgetIsRead) {
  const auto m = read_oom(
      "[budget] a step needs at least 7340032 bytes and its budget is 1000, so it cannot be kept. At the fullest "
      "moment of such a "
      "step: weights 4194304, gradients 1048576, what else was live before the step (optimizer state, data) 2048, the "
      "step itself "
      "2095104. Give at least retrace::budget(7340032), or retrace::budget(...).best_effort() to run with the "
      "smallest.");
  EXPECT_EQ(m.source, OomSource::retrace_budget);
  expect_bytes(m.needed_bytes, 7340032);
  expect_bytes(m.capacity_bytes, 1000);
  ASSERT_EQ(m.owners.size(), 4U);
  EXPECT_EQ(m.owners[2].bytes, 2048);
}

TEST(OomMessage, TheLastOneOfALogCounts) {
  const auto m = read_oom(
      "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated; 0 "
      "bytes free; "
      "7.1 GiB reserved in total by PyTorch)\n" +
      std::string(2000, '.') +
      "\nCUDA out of memory. Tried to allocate 3.00 GiB (GPU 1; 8.00 GiB total capacity; 6.00 GiB already allocated; 0 "
      "bytes "
      "free; 7.1 GiB reserved in total by PyTorch)\n");
  expect_bytes(m.tried_bytes, 3 * kGi);
  expect_bytes(m.allocated_bytes, 6 * kGi);
}

TEST(OomMessage, WithoutOneAnErrorSaysWhatToPaste) {
  for (const char* text : {"", "ValueError: all is well", "Tried to allocate", "Tried to allocate lots of GiB",
                           "you tried to allocate 1e400 bytes"}) {
    EXPECT_THROW(read_oom(text), UsageError) << text;
  }
}

TEST(OomMessage, OfAnyPrefixNeverBreaks) {
  const std::string whole =
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; 77.10 GiB already allocated; "
      "1.20 GiB "
      "free; 77.50 GiB reserved in total by PyTorch)";
  for (size_t size = 0; size <= whole.size(); ++size) {
    try {
      explain(read_oom(whole.substr(0, size)));
    } catch (const UsageError&) {
    }
  }
}

}  // namespace
}  // namespace retrace::doctor
