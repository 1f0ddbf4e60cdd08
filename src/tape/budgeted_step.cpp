#include "tape/budgeted_step.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace retrace {

BudgetedStep::BudgetedStep(store::Kinds kinds, PlanMatch match, FindMatch find_match, Refuse refuse)
    : only_measures_(match.budget_bytes == kNoBudget),
      kinds_(std::move(kinds)),
      match_(std::move(match)),
      find_match_(std::move(find_match)),
      refuse_(std::move(refuse)) {}

void BudgetedStep::check_budget() {
  if (most_wanted_bytes_ == 0) return;
  // Another backward is likely to come, which may need more: then the whole step tells.
  if (const auto tape = tape_.lock(); tape && tape->has_graph_to_come()) return;
  refused_ = true;
  refuse_(*this);
}

void BudgetedStep::meets_op(size_t index, uint64_t prefix_hash) {
  if (diverged_ || only_measures_) return;
  const auto& expected = match_.prefix_hashes;
  if (expected && index < expected->size() && (*expected)[index] == prefix_hash) return;
  const auto before = std::exchange(match_, find_match_(index, prefix_hash));
  changed_plan_ |= index > 0 && before.plan != match_.plan;
  diverged_ = !match_.prefix_hashes;
}

bool BudgetedStep::holds_root(ValueId value) const {
  const auto& unheld = match_.unheld_roots;
  const auto at = static_cast<size_t>(value);
  return !match_.plan || !unheld || at >= unheld->size() || (*unheld)[at] == 0;
}

plan::Choice BudgetedStep::choice(ValueId value) const {
  const plan::Choices& choices = match_.plan->choices;
  const auto at = static_cast<size_t>(value);
  return at < choices.size() ? choices[at] : plan::Choice::keep();
}

const store::Kind* BudgetedStep::kind(ValueId value) const {
  const auto at = static_cast<size_t>(value);
  return match_.kinds && at < match_.kinds->size() ? (*match_.kinds)[at] : nullptr;
}

namespace {

// The tapes of steps under a budget whose values may be let go of: of open steps, and of those whose graph outlives them.
// All sessions count the same memory.
class Registry {
 public:
  void add(const std::shared_ptr<Tape>& tape) {
    const std::lock_guard lock(mutex_);
    std::erase_if(tapes_, [](const auto& t) { return t.expired(); });
    tapes_.push_back(tape);
  }
  std::vector<std::shared_ptr<Tape>> others(const Tape& own) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Tape>> living;
    for (const auto& weak : tapes_) {
      if (auto tape = weak.lock(); tape && tape.get() != &own) living.push_back(std::move(tape));
    }
    return living;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Tape>> tapes_;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

void BudgetedStep::attach(const std::shared_ptr<Tape>& tape) {
  tape_ = tape;
  tape->count_reach();
  registry().add(tape);
}

// Lets go of the cheapest value of all these tapes; false if there is none. A tape that another thread has locked is left
// out, unless we can wait for it: two that wait for each other would wait forever.
bool BudgetedStep::evict_from(const std::vector<std::shared_ptr<Tape>>& tapes, bool wait) {
  Tape* where = nullptr;
  Tape::Evictable best;
  for (const auto& tape : tapes) {
    const Tape::Lock lock = wait ? Tape::Lock(*tape) : Tape::Lock(*tape, std::try_to_lock);
    if (!lock.has_it()) continue;
    const Tape::Evictable found = tape->cheapest();
    if (found.value == kNone || (where && found.score >= best.score)) continue;
    where = tape.get();
    best = found;
  }
  if (!where) return false;
  const Tape::Lock lock = wait ? Tape::Lock(*where) : Tape::Lock(*where, std::try_to_lock);
  if (!lock.has_it()) return false;
  if (where->evict(best.value) == 0) return where->is_root(where->value(best.value));  // one less to choose from
  if (where->budgeted_step) ++where->budgeted_step->evictions_;
  return true;
}

void BudgetedStep::make_space(int64_t wanted_bytes) {
  const auto own = tape_.lock();
  if (!own) return;
  const int64_t asked_bytes = wanted_bytes - memory::live_bytes();
  const auto missing = [&] { return memory::live_bytes() + asked_bytes - budget_bytes(); };
  const bool may_wait = !Tape::Lock::held_by_this_thread();
  const bool strict = own->strict;
  if (!strict) {
    const Tape::Lock lock(*own);
    if (own->may_have_idle()) own->let_go_idle();
  }  // unlocked, so that what was let go of is freed
  auto tapes = registry().others(*own);
  tapes.push_back(own);
  while (missing() > 0 && evict_from(tapes, false)) {
  }
  while (missing() > 0 && may_wait && tapes.size() > 1 && evict_from(tapes, true)) {
  }
  if (missing() > 0 && !strict) {
    const Tape::Lock lock(*own);
    own->let_go_roots();
  }
  if (missing() <= 0) return;
  if (strict && most_wanted_bytes_ == 0) throw OverBudget();
  most_wanted_bytes_ = std::max(most_wanted_bytes_, memory::live_bytes() + asked_bytes);
}

}  // namespace retrace
