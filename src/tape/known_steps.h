// What a session has learnt from its steps: how steps can begin, and where content was written without LibTorch
// knowing. Steps are recognised by the hash of all operators up to a point (Timeline::prefix_hashes).
#pragma once

#include <c10/core/Storage.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/solve/related_plan.h"

namespace retrace {

// An operator that a backward ran itself.
struct BackwardOp {
  std::string name;
  float seconds = 0;
  int32_t after = 0;  // how many events, releases aside, that backward had had before it
};
using BackwardOps = std::vector<BackwardOp>;

// Used by the session's open step alone, under its tape's lock.
class KnownSteps {
 public:
  explicit KnownSteps(bool verifies) : verifies_(verifies) {}

  bool verifies() const { return verifies_; }  // whether what is new is verified
  bool is_empty() const { return kinds_ == 0; }

  // Verifying takes a good part of a step's time. So in a program whose steps are all of new kinds only a few steps are
  // verified as a whole; of the others, operators that never ran after such operators before.
  void begin_step() {
    ++steps_;
    recent_ = {};
    met_.clear();
    const int64_t steps_per_kind = written_.empty() && fleeting_.empty() ? kStepsPerKind : kStepsPerKindIfWritten;
    verifies_whole_ = kinds_ < kAlwaysVerified || (kinds_ < kMostKinds && kinds_ * steps_per_kind <= steps_);
  }
  // The open step has come to an operator. Whether that is new: no verified step that has ended began like this, and
  // this step is verified as a whole, or at least this operator is.
  bool is_new(uint64_t prefix_hash, uint64_t op_kind) {
    recent_.add(op_kind);
    if (prefixes_.count(prefix_hash) > 0) return false;
    const uint64_t context = recent_.hash(plan::RecentOps::kMost);
    const bool is_met = contexts_.count(context) > 0;
    if (!is_met) met_.push_back(context);
    return verifies_whole_ || (!is_met && contexts_.size() < kMostContexts);
  }

  void learn(const std::vector<uint64_t>& prefix_hashes) {
    if (contexts_.size() < kMostContexts) contexts_.insert(met_.begin(), met_.end());
    if (prefix_hashes.empty() || !verifies_whole_ || prefixes_.count(prefix_hashes.back()) > 0) return;
    prefixes_.insert(prefix_hashes.begin(), prefix_hashes.end());
    ++kinds_;
  }

  // A place is one look at one tensor. At a written place, content had been written through a pointer since the look
  // before.
  bool is_written(uint64_t place) const { return written_.count(place) > 0; }
  void add_written(uint64_t place) { written_.insert(place); }

  // At a fleeting place: content seen there for the first time will be written through a pointer after it was read, so
  // what is made from it cannot be made again.
  bool is_fleeting(uint64_t place) const { return fleeting_.count(place) > 0; }
  void add_fleeting(uint64_t place) { fleeting_.insert(place); }
  // The same for memory from outside the step, wherever it is looked at.
  bool is_refilled(const c10::Storage& storage) const {
    return std::any_of(refilled_.begin(), refilled_.end(),
                       [&](const Pin& pin) { return pin._unsafe_get_target() == storage.unsafeGetStorageImpl(); });
  }
  void add_refilled(const c10::Storage& storage) {
    if (is_refilled(storage)) return;
    std::erase_if(refilled_, [](const Pin& pin) { return pin.expired(); });
    if (refilled_.size() == kMostRefilled) refilled_.erase(refilled_.begin());
    refilled_.emplace_back(storage.getWeakStorageImpl());
  }

  // The operators that a backward of this kind (Timeline::begin_backward) ran; null: none of the kind was watched.
  std::shared_ptr<const BackwardOps> backward(uint64_t kind) const {
    const auto found = backwards_.find(kind);
    return found == backwards_.end() ? nullptr : found->second;
  }
  // Watching takes time: after the first few, only kinds that come back.
  bool wants_backward(uint64_t kind) {
    if (backward_ops_ >= kMostBackwardOps) return false;
    if (unwatched_.size() == kMostUnwatched) unwatched_.clear();
    return backwards_.size() < kAlwaysWatched || !unwatched_.insert(kind).second;
  }
  void add_backward(uint64_t kind, std::shared_ptr<const BackwardOps> ops) {
    backward_ops_ += ops->size();
    backwards_.emplace(kind, std::move(ops));
  }

 private:
  using Pin = c10::weak_intrusive_ptr<c10::StorageImpl>;  // so that its address is never mistaken for its successor's

  static constexpr size_t kMostRefilled = 64;           // buffers
  static constexpr int64_t kAlwaysVerified = 4;         // kinds
  static constexpr int64_t kStepsPerKind = 32;          // after those
  static constexpr int64_t kStepsPerKindIfWritten = 8;  // content was written without LibTorch knowing
  static constexpr int64_t kMostKinds = 64;             // to remember
  static constexpr size_t kMostContexts = 20'000;
  static constexpr size_t kMostBackwardOps = 100'000;                 // some megabytes
  static constexpr size_t kAlwaysWatched = 4, kMostUnwatched = 1024;  // kinds

  const bool verifies_;
  std::unordered_set<uint64_t> prefixes_, written_, fleeting_;
  std::vector<Pin> refilled_;
  std::unordered_map<uint64_t, std::shared_ptr<const BackwardOps>> backwards_;
  size_t backward_ops_ = 0;
  std::unordered_set<uint64_t> unwatched_;  // kinds of backward that were seen once
  int64_t steps_ = 0;                       // begun
  int64_t kinds_ = 0;                       // verified
  bool verifies_whole_ = true;              // the open step
  plan::RecentOps recent_;                  // in it
  std::vector<uint64_t> met_;               // contexts in it that are not known yet
  std::unordered_set<uint64_t> contexts_;   // of operators that were verified: what ran before them
};

}  // namespace retrace
