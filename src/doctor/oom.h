// The numbers in the text of an out-of-memory error: PyTorch's on a GPU (wordings from 1.0 to 2.x), LibTorch's CPU
// allocator's, Retrace's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace retrace::doctor {

enum class OomSource { gpu, mps, cpu, retrace_budget, retrace_limit };

// What the message says; what it does not say is not there. Sizes with two decimals are as exact as they were written.
struct OomMessage {
  OomSource source = OomSource::cpu;
  std::optional<int64_t> tried_bytes = {};      // the allocation that failed
  std::optional<int64_t> capacity_bytes = {};   // of the device; of a limit or a budget, that
  std::optional<int64_t> allocated_bytes = {};  // live tensors
  std::optional<int64_t> cached_bytes = {};     // reserved by the allocator and in no tensor
  std::optional<int64_t> free_bytes = {};
  std::optional<int64_t> outside_bytes =
      {};  // in use by this process beside PyTorch's allocator, and by other processes
  std::optional<int64_t> needed_bytes = {};  // that would have been enough, if the message knows
  struct Owner {
    std::string name;
    int64_t bytes = 0;
  };
  std::vector<Owner> owners = {};  // who held what

  // Live tensors and the one that failed: the step needs at least this.
  std::optional<int64_t> at_least_bytes() const;
  // It would have fitted into what the allocator had reserved, had that been in one piece.
  bool fragmented() const;
};

// Finds the last message in a longer text (a log). Throws UsageError if there is none.
OomMessage read_oom(std::string_view text);

// Sentences: what happened.
std::vector<std::string> explain(const OomMessage& message);

}  // namespace retrace::doctor
