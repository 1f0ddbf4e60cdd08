// The counting allocator's inner side: owners are set here, by the tape and by Watch.
#pragma once

#include <c10/core/Storage.h>

#include <retrace/memory.h>

namespace retrace::memory {

// Puts the counting allocator in front of LibTorch's. Idempotent; also runs when the library is loaded.
void install();

// Whether LibTorch allocated it, through us or before we were there. Other memory (from_blob, mapped files) may be refilled or
// gone without notice.
bool is_owned(const c10::Storage& storage);

// Moves a live block to another owner. Memory LibTorch did not allocate through us has none: nothing happens.
void set_owner(const c10::Storage& storage, Owner owner);

// Moves a block only if `from` owns it: weights stay weights when a tape holds them.
void change_owner(const c10::Storage& storage, Owner from, Owner to);

// While one lives, what this thread allocates belongs to `owner`.
class OwnerScope {
 public:
  explicit OwnerScope(Owner owner);
  ~OwnerScope();
  OwnerScope(const OwnerScope&) = delete;
  OwnerScope& operator=(const OwnerScope&) = delete;

 private:
  Owner before_;
};

// A storage of its own with the same bytes.
c10::Storage copy_of(const c10::Storage& storage);

// From now on `leaf` is a weight, and its .grad a gradient whenever backward has written it. Holds nothing.
void watch_leaf(const at::Tensor& leaf);
// It is used again: by now the graph may have gone that it was used in, and what was to tell us of its gradient.
void watch_leaf_again(const at::Tensor& leaf);

// -- What a step's timeline needs --

// Which blocks are on a step's tape: their bytes are a plan's to move. When it is closed, by its destructor, those that are
// still live (a result the program goes on with, an unpacked tensor that somebody holds) count like any other again.
class TapeBlocks {
 public:
  TapeBlocks();
  ~TapeBlocks();
  TapeBlocks(const TapeBlocks&) = delete;
  TapeBlocks& operator=(const TapeBlocks&) = delete;
  void track(const c10::Storage& storage);

 private:
  const uint32_t number_;
};

// The bytes that are not on the tape.
struct OtherBytes {
  int64_t now = 0;
  int64_t peak = 0;  // the most since the window began
  int64_t gradients = 0;
  uint64_t changes = 0;  // of any bytes, that there had been
};
OtherBytes this_window();
// The one that ends with this call, and began with the one that gave `before`: without a lock if nothing happened in it.
OtherBytes next_window(const OtherBytes& before = {});

// What comes while it lives and is then on the tape, or gone, does not show in the window's peak.
class SameWindow {
 public:
  SameWindow();
  ~SameWindow();
  SameWindow(const SameWindow&) = delete;
  SameWindow& operator=(const SameWindow&) = delete;

 private:
  const int64_t peak_;
};

// The most live at once since it was made, whatever a user's reset_peak() does.
class PeakWatch {
 public:
  PeakWatch();
  ~PeakWatch();
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;
  int64_t bytes() const;

 private:
  friend struct Counter;
  int64_t bytes_;
};

// Keeps allocations within a budget by letting go of what can be rebuilt.
class Governor {
 public:
  virtual ~Governor() = default;
  virtual int64_t budget_bytes() const = 0;
  // Called before an allocation of so many bytes that would bring the live bytes above the budget. May free memory and claim()
  // it, may throw instead; if neither, the allocation goes on above the budget.
  virtual void make_space(int64_t bytes) = 0;
  // The same for a thread that has no governor of its own. Does not wait for long and throws nothing: its owner may wait for that thread.
  virtual void make_space_for_other(int64_t bytes) = 0;
};

// Is asked before this thread's allocations from now on, in place of the one before; null: nobody.
void set_governor(Governor* governor);
// Is asked, once each, before allocations of threads that have none, for space for others. Must live as long as the process.
void set_common_governor(Governor* governor);

// Sets memory aside for this thread's next allocation: what a thread has made space for, nobody else under a budget takes
// meanwhile. False, and nothing has happened, if that would bring what is live or set aside above the budget.
bool claim(int64_t bytes, int64_t budget_bytes);
void drop_claim();
int64_t taken_bytes();  // live, or set aside for other threads

// For fault tests: the n-th allocation from now (0: the next) throws out of memory, once. Negative: none does.
void fail_allocation_after(int64_t n);

}  // namespace retrace::memory
