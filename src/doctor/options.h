// Checkpointing together with other means: what each leaves on the device, and the smallest combination that fits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "doctor/checkpointing.h"
#include "doctor/states.h"

namespace retrace::doctor {

inline constexpr int64_t kLoraRank = 16;
inline constexpr int64_t kMostRanks = 65536;
inline constexpr int64_t kLossChunks = 8;

struct Option {
  Means means = {};
  States states = {};
  PolicyCost policy = {};  // the fastest that fits, or the leanest
  bool fits = false;

  int64_t device_bytes() const { return plus(states.total(), policy.peak_bytes()); }
  int64_t host_bytes() const { return plus(states.host, policy.host_bytes); }
  int64_t moved_bytes() const { return plus(states.moved, times(2, policy.host_bytes)); }  // per step, host and device
};

// The smallest combination of each sort, if there is one.
struct Smallest {
  std::optional<Option> all_weights = {};  // on one device, every weight is trained
  std::optional<Option> frozen = {};       // on one device, most weights are frozen
  std::optional<Option> several = {};      // on several devices, every weight is trained

  const std::optional<Option>& first() const { return all_weights ? all_weights : frozen ? frozen : several; }
};

// A model on a device of which so many bytes may be used.
class Options {
 public:
  Options(const Model& model, double balance, int64_t usable_bytes);

  Option evaluate(const Means& means) const;
  // With as few ranks as do, at least two; with kMostRanks if none do.
  Option with_fewest_ranks(Means means) const;

  // Each means alone, ZeRO with as few ranks as do.
  std::vector<Option> one_by_one() const;

  // Fewest means first, then fewest ranks, then the lowest stage of ZeRO, then least traffic to the host, then least
  // time.
  Smallest smallest() const;

  int64_t usable_bytes() const { return usable_bytes_; }

 private:
  const Checkpointing& checkpointing(const Means& means) const { return means.chunked_loss ? chunked_ : whole_; }

  Model model_;
  Checkpointing whole_, chunked_;
  int64_t usable_bytes_;
};

}  // namespace retrace::doctor
