// A described training on a device: where the memory goes, whether it fits, and what to do if not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/device.h"
#include "doctor/model.h"
#include "doctor/oom.h"
#include "doctor/options.h"

namespace retrace::doctor {

inline constexpr double kUsualReserve = 0.05;  // of a GPU, for its context and fragmentation: a heuristic

struct Memory {
  int64_t bytes = 0;      // 0: nobody said
  int64_t reserved = 0;   // left alone
  std::string from = {};  // "h100", "--memory", "the message"
  int64_t usable() const { return bytes - reserved; }
};

// How far one way to train goes.
struct Reach {
  int64_t batch = 0, seq = 0;  // the largest at the other one as described; 0: none
};

struct PolicyRow {
  PolicyCost cost = {};
  int64_t peak_bytes = 0;  // with weights, gradients and optimizer state
  bool fits = false;
  Reach reach = {};  // if the memory is known
};

struct Diagnosis {
  Completed described = {};
  Device device = {};
  Memory memory = {};
  std::optional<OomMessage> oom = {};

  Parameters params = {};
  States states = {};
  std::optional<Checkpointing> checkpointing = {};  // always there
  PolicyCost plain = {};
  std::vector<PolicyRow> policies = {};  // those worth showing, the fastest first

  // If the memory is known.
  bool fits = false;                       // as it is
  std::optional<PolicyCost> advised = {};  // the fastest policy that fits; none: checkpointing alone cannot
  std::optional<Option> chunked = {};      // the loss in chunks, if that would be faster than the policy advised
  std::vector<Option> one_by_one = {};     // further means, if checkpointing alone is not enough
  Smallest smallest = {};
  Reach reach = {};                          // with any policy
  std::optional<Reach> smallest_reach = {};  // of the smallest combination on one device

  int64_t plain_bytes() const { return plus(states.total(), plain.peak_bytes()); }
};

Diagnosis diagnose(Completed described, const Device& device, const Memory& memory, std::optional<OomMessage> oom = {});

// The largest batch and the longest sequence within the memory, with the cheapest policy that does.
Reach reach(const Model& model, const Means& means, int64_t usable_bytes);

struct TextOptions {
  bool tensors = false;    // every tensor of a block
  bool published = false;  // beside figures of others
};
std::string to_text(const Diagnosis& diagnosis, const TextOptions& options = {});
std::string to_json(const Diagnosis& diagnosis);

}  // namespace retrace::doctor
