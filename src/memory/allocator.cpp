#include "memory/allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <retrace/errors.h>

#include "device/device.h"
#include "libtorch/compat.h"
#include "memory/blocks.h"
#include "memory/spin_lock.h"

namespace retrace::memory {
namespace {

// Sits in front of every block. As large as LibTorch's alignment, so that the block keeps it.
struct alignas(64) Header {
  int64_t bytes;
  Owner owner;
  uint32_t tape = 0;  // number of the TapeBlocks that tracks it; 0: none
};
static_assert(sizeof(Header) == 64);

}  // namespace

// One lock for all counts: owners then sum to the total for every reader, at the cost of one uncontended lock per
// allocation. Never destroyed, because blocks are freed by static destructors too.
struct Counter {
  struct OpenTape {
    uint32_t number;
    int64_t bytes;  // that it tracks
  };

  SpinLock mutex;
  Bytes live;
  int64_t total = 0;
  int64_t claimed = 0;               // by all threads, beyond total
  int64_t tracked = 0;               // of total, by open tapes
  int64_t window_peak = 0;           // of total less tracked
  std::atomic<uint64_t> changes{0};  // of total, tracked and gradients; read without the lock
  std::vector<PeakWatch*> watches;
  int64_t peak = 0;
  Bytes at_peak;
  int64_t activation_peak = 0;
  std::optional<int64_t> limit;
  std::vector<OpenTape> tapes;
  uint32_t latest_tape = 0;

  OpenTape* find_tape(uint32_t number) {
    const auto tape = std::find_if(tapes.begin(), tapes.end(), [&](const OpenTape& t) { return t.number == number; });
    return tape == tapes.end() ? nullptr : &*tape;
  }

  void note_change() { changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  void note_peaks() {
    if (total > peak) {
      peak = total;
      at_peak = live;
    }
    for (PeakWatch* const watch : watches) watch->bytes_ = std::max(watch->bytes_, total);
    window_peak = std::max(window_peak, total - tracked);
    activation_peak = std::max(activation_peak, total - live[Owner::weights] - live[Owner::gradients]);
  }
};

namespace {

Counter& counter() {
  static Counter* const instance = new Counter;
  return *instance;
}

// Throws NotSupported for a device that is not counted.
Counter& counter(Device device) {
  device_of(device.name);
  return counter();
}

std::atomic<bool> poison{false};
std::atomic<int64_t> allocations_until_failure{-1};
[[gnu::tls_model("initial-exec")]] thread_local Owner current_owner = Owner::other;
[[gnu::tls_model("initial-exec")]] thread_local Governor* current_governor = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local int64_t current_claim = 0;
std::atomic<Governor*> common_governor{nullptr};
c10::Allocator* wrapped = nullptr;
bool has_own_blocks = false;  // from blocks.h; else from an allocator that the program has put in place

constexpr int index(Owner owner) { return static_cast<int>(owner); }

std::string describe(const Bytes& bytes) {
  std::string text;
  for (int i = 0; i < kOwners; ++i) {
    text.append(i ? ", " : "")
        .append(name(static_cast<Owner>(i)))
        .append(" ")
        .append(std::to_string(bytes.by_owner[i]));
  }
  return text;
}

// False, and nothing has happened, if that would bring the live bytes above the budget.
bool reserve(int64_t bytes, Owner owner, int64_t budget_bytes) {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (current_claim < bytes && c.total + c.claimed - current_claim + bytes > budget_bytes) return false;
  c.claimed -= std::exchange(current_claim, 0);
  TORCH_CHECK_WITH(OutOfMemoryError, !c.limit || c.total + bytes <= *c.limit, "[retrace::memory] an allocation of ",
                   bytes, " bytes would bring the live bytes from ", c.total, " above the limit of ",
                   c.limit.value_or(0), ", so it was refused. Held by: ", describe(c.live),
                   ". Raise the limit, or keep less with a retrace policy.");
  c.live.by_owner[index(owner)] += bytes;
  c.total += bytes;
  c.note_change();
  c.note_peaks();
  return true;
}

void release(int64_t bytes, Owner owner, uint32_t tape) {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  c.live.by_owner[index(owner)] -= bytes;
  c.total -= bytes;
  c.note_change();
  if (Counter::OpenTape* const open = tape == 0 ? nullptr : c.find_tape(tape)) {
    open->bytes -= bytes;
    c.tracked -= bytes;
  }
}

// Makes space without holding the counter's lock, since that frees memory. If another thread takes the space before
// this one has claimed it, tries again.
void reserve_within_budget(int64_t bytes, Owner owner) {
  constexpr int kTries = 16;
  Governor* const governor = current_governor;
  for (int i = 0; governor && i < kTries; ++i) {
    if (reserve(bytes, owner, governor->budget_bytes())) return;
    governor->make_space(bytes);
  }
  if (Governor* const common = governor ? nullptr : common_governor.load(std::memory_order_acquire)) {
    if (reserve(bytes, owner, common->budget_bytes())) return;
    common->make_space_for_other(bytes);
  }
  reserve(bytes, owner, INT64_MAX);
}

void maybe_fail(size_t bytes) {
  if (allocations_until_failure.load(std::memory_order_relaxed) < 0) return;
  TORCH_CHECK_WITH(OutOfMemoryError, allocations_until_failure.fetch_sub(1) != 0,
                   "[retrace::memory] injected failure of an allocation of ", bytes, " bytes");
}

Header* header_of(void* block) { return static_cast<Header*>(block) - 1; }

void free_block(void* block) {
  if (!block) return;
  Header* const header = header_of(block);
  release(header->bytes, header->owner, header->tape);
  if (poison.load(std::memory_order_relaxed)) cpu().fill(block, 0xFF, static_cast<size_t>(header->bytes));
  if (!has_own_blocks) return wrapped->raw_deallocate(header);
  deallocate_block(header, static_cast<size_t>(header->bytes) + sizeof(Header));
}

class CountingAllocator final : public compat::Allocator {
 public:
  at::DeleterFnPtr raw_deleter() const override { return &free_block; }

 private:
  at::DataPtr make(size_t bytes) const override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, at::kCPU};
    maybe_fail(bytes);
    const Owner owner = current_owner;
    reserve_within_budget(static_cast<int64_t>(bytes), owner);
    void* raw = nullptr;
    try {
      const size_t all = bytes + sizeof(Header);
      raw = has_own_blocks ? allocate_block(all) : wrapped->raw_allocate(all);
    } catch (...) {
      release(static_cast<int64_t>(bytes), owner, /*tape=*/0);
      throw;
    }
    Header* const header = new (raw) Header{static_cast<int64_t>(bytes), owner};
    void* const block = header + 1;
    if (poison.load(std::memory_order_relaxed)) cpu().fill(block, 0xFF, bytes);
    return {block, block, &free_block, at::kCPU};
  }
};

const bool installed_at_load = (install(), true);

// The header of a storage's block, or null if the block is not ours.
Header* header_of(const c10::Storage& storage) {
  if (!storage) return nullptr;
  const at::DataPtr& data = storage.data_ptr();
  return data.get_deleter() == &free_block && data.get_context() ? header_of(data.get_context()) : nullptr;
}

void move_owner(Header* header, std::optional<Owner> from, Owner to) {
  if (!header) return;
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (from && header->owner != *from) return;
  c.live.by_owner[index(header->owner)] -= header->bytes;
  c.live.by_owner[index(to)] += header->bytes;
  if (header->owner == Owner::gradients || to == Owner::gradients) c.note_change();
  header->owner = to;
}

}  // namespace

void install() {
  static const bool done = [] {
    wrapped = cpu().allocator();
    has_own_blocks = wrapped == cpu().default_allocator();
    cpu().set_allocator(new CountingAllocator);
    return true;
  }();
  static_cast<void>(done);
}

bool is_owned(const c10::Storage& storage) {
  const at::DataPtr& data = storage.data_ptr();
  return data.get() == nullptr || data.get_deleter() == &free_block || data.get_deleter() == wrapped->raw_deleter();
}

void set_owner(const c10::Storage& storage, Owner owner) { move_owner(header_of(storage), std::nullopt, owner); }

void change_owner(const c10::Storage& storage, Owner from, Owner to) { move_owner(header_of(storage), from, to); }

c10::Storage copy_of(const c10::Storage& storage) {
  const DeviceSupport& device = device_of(storage.device_type());
  c10::Storage copy(c10::Storage::use_byte_size_t(), storage.nbytes(), device.allocator(), /*resizable=*/true);
  if (storage.nbytes() > 0) device.copy(copy.data_ptr().get(), storage.data_ptr().get(), storage.nbytes());
  return copy;
}

OwnerScope::OwnerScope(Owner owner) : before_(std::exchange(current_owner, owner)) {}
OwnerScope::~OwnerScope() { current_owner = before_; }

TapeBlocks::TapeBlocks()
    : number_([] {
        Counter& c = counter();
        const std::lock_guard lock(c.mutex);
        c.tapes.push_back({++c.latest_tape, 0});
        return c.latest_tape;
      }()) {}

TapeBlocks::~TapeBlocks() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  c.tracked -= c.find_tape(number_)->bytes;
  c.note_change();
  std::erase_if(c.tapes, [&](const Counter::OpenTape& tape) { return tape.number == number_; });
}

void TapeBlocks::track(const c10::Storage& storage) {
  Header* const header = header_of(storage);
  if (!header) return;
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  if (header->tape != 0 && c.find_tape(header->tape)) return;
  header->tape = number_;
  c.find_tape(number_)->bytes += header->bytes;
  c.tracked += header->bytes;
  c.note_change();
}

OtherBytes next_window(const OtherBytes& before) {
  Counter& c = counter();
  if (before.changes != 0 && c.changes.load(std::memory_order_acquire) == before.changes)
    return {before.now, before.now, before.gradients, before.changes};
  const std::lock_guard lock(c.mutex);
  const int64_t now = c.total - c.tracked;
  return {now, std::exchange(c.window_peak, now), c.live[Owner::gradients], c.changes.load(std::memory_order_relaxed)};
}

OtherBytes this_window() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  return {c.total - c.tracked, c.window_peak, c.live[Owner::gradients], c.changes.load(std::memory_order_relaxed)};
}

SameWindow::SameWindow() : peak_(this_window().peak) {}

SameWindow::~SameWindow() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  c.window_peak = std::max(peak_, c.total - c.tracked);
}

PeakWatch::PeakWatch() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  bytes_ = c.total;
  c.watches.push_back(this);
}

PeakWatch::~PeakWatch() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  std::erase(c.watches, this);
}

int64_t PeakWatch::bytes() const {
  const std::lock_guard lock(counter().mutex);
  return bytes_;
}

void set_governor(Governor* governor) { current_governor = governor; }
void set_common_governor(Governor* governor) { common_governor.store(governor, std::memory_order_release); }

bool claim(int64_t bytes, int64_t budget_bytes) {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  const int64_t others = c.claimed - current_claim;
  if (c.total + others + bytes > budget_bytes) return false;
  c.claimed = others + bytes;
  current_claim = bytes;
  return true;
}

void drop_claim() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  c.claimed -= std::exchange(current_claim, 0);
}

int64_t taken_bytes() {
  Counter& c = counter();
  const std::lock_guard lock(c.mutex);
  return c.total + c.claimed - current_claim;
}

std::string_view name(Owner owner) {
  constexpr std::string_view kNames[kOwners] = {"weights", "gradients", "kept", "rebuilt", "other"};
  return kNames[index(owner)];
}

int64_t Bytes::total() const { return std::accumulate(std::begin(by_owner), std::end(by_owner), int64_t{0}); }

int64_t live_bytes(Device device) { return live(device).total(); }
int64_t live_bytes(Owner owner, Device device) { return live(device)[owner]; }

Bytes live(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  return c.live;
}

int64_t peak_bytes(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  return c.peak;
}

Bytes at_peak(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  return c.at_peak;
}

int64_t activation_peak_bytes(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  return c.activation_peak;
}

void reset_peak(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  c.peak = c.activation_peak = 0;
  c.note_peaks();
}

void set_limit(int64_t bytes, Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  if (bytes < c.total) {
    throw UsageError("[memory::set_limit] " + std::to_string(c.total) + " bytes are live, more than the limit of " +
                     std::to_string(bytes) + " asked for, so the limit stays as it was. Held by: " + describe(c.live) +
                     ". Free some first, or set a higher limit.");
  }
  c.limit = bytes;
}

void clear_limit(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  c.limit.reset();
}

std::optional<int64_t> limit(Device device) {
  Counter& c = counter(device);
  const std::lock_guard lock(c.mutex);
  return c.limit;
}

void set_poison(bool on) { poison = on; }

void fail_allocation_after(int64_t n) { allocations_until_failure = n; }

}  // namespace retrace::memory
