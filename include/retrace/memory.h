// The byte counter: every byte LibTorch allocates for CPU tensors, live and at its peak, by owner.
//
// Counted: the bytes asked of LibTorch's CPU allocator since the library was loaded. Not counted: what was allocated
// before that, memory that LibTorch did not allocate (from_blob, mapped files), scratch inside BLAS and oneDNN, and the
// allocator's own rounding. All functions may be called from any thread.
#pragma once

#include <retrace/cxx20.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace retrace::memory {

// Every live byte has exactly one owner.
enum class Owner {
  weights,    // leaves that require grad: seen by a Session or named by a Watch
  gradients,  // the .grad of those
  kept,       // held for backward
  rebuilt,    // forgotten, and rebuilt for backward
  other,      // everything else: inputs, temporaries, optimizer state
};
inline constexpr int kOwners = 5;
std::string_view name(Owner owner);

struct Bytes {
  int64_t by_owner[kOwners] = {};
  int64_t operator[](Owner owner) const { return by_owner[static_cast<int>(owner)]; }
  int64_t total() const;  // the sum over owners, always
};

// Whose memory. The CPU's is the only one that is counted today: functions throw NotSupported for another.
struct Device {
  std::string_view name = "cpu";
};

int64_t live_bytes(Device device = {});
int64_t live_bytes(Owner owner, Device device = {});
Bytes live(Device device = {});  // all owners at one moment

int64_t peak_bytes(Device device = {});  // the most live at once since reset_peak(), or since the library was loaded
Bytes at_peak(Device device = {});       // who held it at that moment
int64_t activation_peak_bytes(Device device = {});  // the most live beside weights and gradients, likewise
void reset_peak(Device device = {});                // peaks start again from what is live now

// An allocation that would bring the live bytes above the limit throws LibTorch's out-of-memory error, which says who
// holds what, and allocates nothing. Throws UsageError, leaving the limit as it was, if more is live already.
void set_limit(int64_t bytes, Device device = {});
void clear_limit(Device device = {});  // the default: no limit
std::optional<int64_t> limit(Device device = {});

// For tests of programs: fill memory with NaN bytes as it is allocated and again before it is freed, so that a use of
// either shows in the results. Off by default.
void set_poison(bool on);

// While it lives, these tensors count as weights and their .grad as gradients from the moment backward writes them.
// Holds the tensors. A Session does the same by itself for the leaves it meets.
class Watch {
 public:
  explicit Watch(const std::vector<at::Tensor>& weights);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retrace::memory
