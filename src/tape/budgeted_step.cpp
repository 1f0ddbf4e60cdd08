#include "tape/budgeted_step.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tape/evict.h"

namespace retrace {

namespace {
std::atomic<int64_t> open_count{0};
}

int64_t BudgetedStep::open_steps() { return open_count; }

BudgetedStep::~BudgetedStep() { --open_count; }

BudgetedStep::BudgetedStep(store::Kinds kinds, PlanMatch match, FindMatch find_match, Refuse refuse)
    : only_measures_(match.budget_bytes == kNoBudget),
      kinds_(std::move(kinds)),
      match_(std::move(match)),
      find_match_(std::move(find_match)),
      refuse_(std::move(refuse)) {
  ++open_count;
}

void BudgetedStep::check_budget() {
  if (most_wanted_bytes_ == 0) return;
  try {
    refuse_(*this);
  } catch (...) {
    refused_ = true;
    throw;
  }
}

void BudgetedStep::meets_op(size_t index, uint64_t prefix_hash, uint64_t kind) {
  recent_.add(kind);
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

plan::RelatedPlan::Advice BudgetedStep::advice(size_t result) const {
  return match_.related ? match_.related->advice(recent_, result) : plan::RelatedPlan::Advice::none;
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
  void add(const std::shared_ptr<SharedTape>& tape) {
    const std::lock_guard lock(mutex_);
    std::erase_if(tapes_, [](const auto& t) { return t.expired(); });
    tapes_.push_back(tape);
  }
  std::vector<std::shared_ptr<SharedTape>> others(const SharedTape& own) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<SharedTape>> living;
    for (const auto& weak : tapes_) {
      if (auto tape = weak.lock(); tape && tape.get() != &own) living.push_back(std::move(tape));
    }
    return living;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<SharedTape>> tapes_;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

void BudgetedStep::attach(const std::shared_ptr<SharedTape>& shared, Tape& tape) {
  tape_ = shared;
  tape.count_reach();
  registry().add(shared);
}

// Lets go of the cheapest value of all these tapes; false if there is none. A tape that another thread has locked is left
// out, unless we can wait for it: two that wait for each other would wait forever.
bool BudgetedStep::evict_from(const std::vector<std::shared_ptr<SharedTape>>& tapes, bool wait) {
  SharedTape* where = nullptr;
  Eviction::Candidate best;
  for (const auto& shared : tapes) {
    const SharedTape::Entry tape(*shared, wait);
    if (!tape.has_it()) continue;
    const Eviction::Candidate found = Eviction(*tape, spare_bytes()).cheapest();
    if (found.value == kNone || (where && found.score >= best.score)) continue;
    where = shared.get();
    best = found;
  }
  if (!where) return false;
  const SharedTape::Entry tape(*where, wait);
  if (!tape.has_it()) return false;
  if (!Eviction(*tape).evict(best))
    return best.kind || tape->is_root(tape->value(best.value));  // one less to choose from
  if (tape->budgeted_step) ++tape->budgeted_step->evictions_;
  return true;
}

// What is put away needs memory itself, and if another thread takes that meanwhile we are asked again.
int64_t BudgetedStep::spare_bytes() const { return calls_ > 1 ? 0 : budget_bytes() - memory::live_bytes(); }

void BudgetedStep::make_space(int64_t wanted_bytes) {
  const auto own = tape_.lock();
  if (!own) return;
  const Calls calls(calls_);
  const int64_t asked_bytes = wanted_bytes - memory::live_bytes();
  const auto missing = [&] { return memory::live_bytes() + asked_bytes - budget_bytes(); };
  const bool may_wait = !SharedTape::Lock::is_any_held();
  const bool strict = own->pressure().strict;
  if (!strict) {
    const SharedTape::Entry tape(*own, may_wait);
    if (tape.has_it() && tape->sweeping.may_have_idle()) let_go_idle(*tape);
  }  // unlocked, so that what was let go of is freed
  auto tapes = registry().others(*own);
  tapes.push_back(own);
  while (missing() > 0 && evict_from(tapes, false)) {
  }
  while (missing() > 0 && may_wait && tapes.size() > 1 && evict_from(tapes, true)) {
  }
  if (missing() > 0 && !strict) {
    const SharedTape::Entry tape(*own, may_wait);
    if (tape.has_it()) let_go_roots(*tape);
  }
  if (missing() <= 0) return;
  if (strict && most_wanted_bytes_ == 0) throw OverBudget();
  most_wanted_bytes_ = std::max(most_wanted_bytes_, memory::live_bytes() + asked_bytes);
}

}  // namespace retrace
