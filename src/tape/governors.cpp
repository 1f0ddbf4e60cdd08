#include "tape/governors.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "memory/stopwatch.h"
#include "tape/runtime_view.h"

namespace retrace {

int64_t PlainGovernor::budget_bytes() const {
  const auto tape = tape_.lock();
  if (!tape || !(tape->pressure().since_balance.may_be_out_of_balance() || tape->pressure().strict)) return INT64_MAX;
  return std::max<int64_t>(peak_.bytes(), plain_peak_bytes_);
}

void PlainGovernor::make_space(int64_t bytes) {
  const auto shared = tape_.lock();
  if (!shared) return;
  const memory::MakingSpace making;
  const SharedTape::Entry tape(*shared, !SharedTape::Lock::is_any_held());
  if (!tape.has_it()) return;
  balance(*tape);
  const auto raise = [&](int64_t to_bytes) { plain_peak_bytes_ = std::max<int64_t>(plain_peak_bytes_, to_bytes); };
  if (tape->pressure.strict) {
    const int64_t live_before = tape->pressure.live_before_replay;
    RuntimeView view(*tape);
    let_go_for_rebuild(view, live_before > 0 ? live_before : memory::live_bytes(), raise,
                       [&] { return memory::live_bytes() + bytes > budget_bytes(); });
  }
  raise(memory::live_bytes() + bytes);  // no more can be done: who asks again, need not be asked for more
}

void PlainGovernor::make_space_for_other(int64_t /*bytes*/) {
  const auto shared = tape_.lock();
  if (!shared) return;
  const SharedTape::Entry tape(*shared, /*may_wait=*/false);
  if (tape.has_it() && !tape->pressure.strict) balance(*tape);
}

namespace {

class CommonGovernor final : public memory::Governor {
 public:
  void add(const std::shared_ptr<memory::Governor>& governor) {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const auto& open) { return open.expired(); });  // of threads that have ended
    open_.push_back(governor);
    count_ = open_.size();
  }
  void remove(const memory::Governor& governor) {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [&](const auto& open) { return open.lock().get() == &governor; });
    count_ = open_.size();
  }

  int64_t budget_bytes() const override {
    int64_t least = INT64_MAX;
    for (const auto& governor : open()) least = std::min(least, governor->budget_bytes());
    return least;
  }

  void make_space(int64_t bytes) override { make_space_for_other(bytes); }

  void make_space_for_other(int64_t bytes) override {
    for (const auto& governor : open()) {
      if (memory::taken_bytes() + bytes > governor->budget_bytes()) governor->make_space_for_other(bytes);
    }
  }

 private:
  std::vector<std::shared_ptr<memory::Governor>> open() const {
    if (count_.load(std::memory_order_relaxed) == 0) return {};
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<memory::Governor>> living;
    for (const auto& weak : open_) {
      if (auto governor = weak.lock()) living.push_back(std::move(governor));
    }
    return living;
  }

  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<memory::Governor>> open_;
  std::atomic<size_t> count_{0};
};

CommonGovernor& common_governor() {
  static CommonGovernor* const instance = [] {
    auto* const made = new CommonGovernor;
    memory::set_common_governor(made);
    return made;
  }();
  return *instance;
}

}  // namespace

void governor_begins(const std::shared_ptr<memory::Governor>& governor) { common_governor().add(governor); }
void governor_ends(const memory::Governor& governor) { common_governor().remove(governor); }

}  // namespace retrace
