#include "tape/governors.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/stopwatch.h"
#include "tape/runtime_view.h"

namespace retrace {
namespace {

// Of the open scopes of all threads.
template <class T>
class Open {
 public:
  using All = std::vector<std::shared_ptr<T>>;

  void add(const std::shared_ptr<T>& governor) {
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

  size_t count() const { return count_.load(std::memory_order_relaxed); }
  All all_but(const T* one) const {
    if (count() == 0) return {};
    const std::lock_guard lock(mutex_);
    All living;
    for (const auto& weak : open_) {
      if (auto governor = weak.lock(); governor && governor.get() != one) living.push_back(std::move(governor));
    }
    return living;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<T>> open_;
  std::atomic<size_t> count_{0};
};

class CommonGovernor final : public memory::Governor {
 public:
  Open<memory::Governor> budgets;
  Open<PlainGovernor> plain;

  int64_t budget_bytes() const override {
    int64_t least = limit_bytes(nullptr);
    for (const auto& governor : budgets.all_but(nullptr)) least = std::min(least, governor->budget_bytes());
    return least;
  }

  void make_space(int64_t bytes) override { make_space_for_other(bytes); }

  void make_space_for_other(int64_t bytes) override {
    for (const auto& governor : budgets.all_but(nullptr)) {
      if (memory::taken_bytes() + bytes > governor->budget_bytes()) governor->make_space_for_other(bytes);
    }
    ask_plain(bytes, nullptr);
  }

  // Of those without a budget, but for the one that asks.
  int64_t limit_bytes(const PlainGovernor* asking) const {
    int64_t least = INT64_MAX;
    for (const auto& governor : plain.all_but(asking)) least = std::min(least, governor->limit_bytes());
    return least;
  }
  void ask_plain(int64_t bytes, const PlainGovernor* asking) const {
    for (const auto& governor : plain.all_but(asking)) {
      if (memory::taken_bytes() + bytes > governor->limit_bytes()) governor->make_space_for_other(bytes);
    }
  }
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

int64_t PlainGovernor::limit_bytes() const {
  const auto tape = tape_.lock();
  if (!tape || !(tape->pressure().since_balance.may_be_out_of_balance() || tape->pressure().strict)) return INT64_MAX;
  return std::max<int64_t>(peak_.bytes(), plain_peak_bytes_);
}

int64_t PlainGovernor::budget_bytes() const {
  const int64_t own = limit_bytes();
  const bool asks_others = !std::exchange(asked_others_, false) && common_governor().plain.count() > 1;
  return asks_others ? std::min(own, common_governor().limit_bytes(this)) : own;
}

void PlainGovernor::make_space(int64_t bytes) {
  if (memory::taken_bytes() + bytes > limit_bytes()) make_own_space(bytes);
  if (common_governor().plain.count() > 1) common_governor().ask_plain(bytes, this);
  asked_others_ = true;
}

void PlainGovernor::make_own_space(int64_t bytes) {
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
                       [&] { return memory::live_bytes() + bytes > limit_bytes(); });
  }
  raise(memory::live_bytes() + bytes);  // no more can be done: who asks again, need not be asked for more
}

void PlainGovernor::make_space_for_other(int64_t /*bytes*/) {
  const auto shared = tape_.lock();
  if (!shared) return;
  const SharedTape::Entry tape(*shared, /*may_wait=*/false);
  if (tape.has_it() && !tape->pressure.strict) balance(*tape);
}

void governor_begins(const std::shared_ptr<PlainGovernor>& governor) { common_governor().plain.add(governor); }
void governor_begins(const std::shared_ptr<memory::Governor>& budget) { common_governor().budgets.add(budget); }

void governor_ends(const memory::Governor& governor) {
  common_governor().plain.remove(governor);
  common_governor().budgets.remove(governor);
}

}  // namespace retrace
