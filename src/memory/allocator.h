// The counting allocator's inner side: owners are set here, by the tape and by Watch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <vector>

#include <retrace/memory.h>

namespace retrace::memory {

// Puts the counting allocator in front of LibTorch's. Idempotent; also runs when the library is loaded.
void install();

// Whether LibTorch allocated it, with our allocator or before that was there. Other memory (from_blob, mapped files)
// may be refilled or freed without notice.
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

// The leaves that a step uses. It keeps none of them alive.
class Leaves {
 public:
  // From now on `leaf` is a weight, and its .grad a gradient whenever backward has written it.
  void add(const at::Tensor& leaf);
  // The leaf is used again. The graph that used it before may be gone, and with it the hook that would tag its gradient:
  // adds another.
  static void used_again(const at::Tensor& leaf);
  // What they have as .grad now is a gradient: the program may have made it, not backward.
  void tag_gradients() const;

 private:
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> leaves_;
};

// -- What a step's timeline needs --

// Which blocks are on a step's tape: a plan decides about their bytes. When it is destroyed, those that are still live
// (a result that the program goes on with, an unpacked tensor that somebody holds) count like any other again.
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

// The bytes that are not on the tape, in a window of time.
struct OtherBytes {
  int64_t now = 0;
  int64_t peak = 0;  // the most since the window began
  int64_t gradients = 0;
  uint64_t changes = 0;  // how often any of these had changed
};
OtherBytes this_window();  // the open window, so far
// Ends the open window, which began when `before` was returned, and begins another. Takes no lock if nothing has
// changed.
OtherBytes next_window(const OtherBytes& before = {});

// What is allocated while it lives, and is on the tape or freed when it ends, does not count for the window's peak.
class SameWindow {
 public:
  SameWindow();
  ~SameWindow();
  SameWindow(const SameWindow&) = delete;
  SameWindow& operator=(const SameWindow&) = delete;

 private:
  const int64_t peak_;
};

// The most bytes live at once since it was made. A user's reset_peak() does not change it.
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
  // Called before an allocation of `bytes` that would bring the live bytes above the budget. May free memory and
  // claim() it, or throw. If it does neither, the allocation goes on above the budget.
  virtual void make_space(int64_t bytes) = 0;
  // The same for a thread that has no governor of its own. Must throw nothing and not wait for long: this governor's
  // own thread may be waiting for that one.
  virtual void make_space_for_other(int64_t bytes) = 0;
};

// `governor` is asked before this thread's allocations from now on, in place of the one before; null: nobody is.
void set_governor(Governor* governor);
// `governor` is asked, once for each allocation, when a thread that has no governor needs space. Must live as long as
// the process.
void set_common_governor(Governor* governor);

// Sets memory aside for this thread's next allocation: no other thread under a budget can take what this one has made
// space for. Returns false, and changes nothing, if that would bring what is live or set aside above the budget.
bool claim(int64_t bytes, int64_t budget_bytes);
void drop_claim();
int64_t taken_bytes();  // live, or set aside for other threads

// For fault tests: the n-th allocation from now (0: the next) throws out of memory, once. Negative: none does.
void fail_allocation_after(int64_t n);

}  // namespace retrace::memory
