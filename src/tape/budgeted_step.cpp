#include "tape/budgeted_step.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "memory/stopwatch.h"
#include "tape/evict.h"
#include "tape/timeline.h"

namespace retrace {

namespace {

std::atomic<int64_t> open_count{0};
std::atomic<int64_t> shared_plain{0};

// How long to wait for a tape that another thread has locked because it rebuilds something. The tape is to be had when
// that has ended, or when that thread is short of memory itself; unless it waits for something that this thread has.
constexpr std::chrono::seconds kPatience{2};
// How often raise_budget() looks while the tape grows to twice its length.
constexpr ValueId kLooksPerDoubling = 32;

// How long a thread without a step waits: the thread that works on the tape may be waiting for it to end.
constexpr std::chrono::milliseconds kPatienceForOther{50};

}  // namespace

int64_t BudgetedStep::open_steps() { return open_count; }

int64_t BudgetedStep::shared_plain_bytes() { return shared_plain; }

BudgetedStep::~BudgetedStep() { end(); }

void BudgetedStep::end() {
  if (!std::exchange(ended_, true) && --open_count == 0) shared_plain = 0;
}

BudgetedStep::BudgetedStep(store::Kinds kinds, PlanMatch match, FindMatch find_match, Refuse refuse)
    : only_measures_(match.budget_bytes == kNoBudget),
      kinds_(std::move(kinds)),
      match_(std::move(match)),
      given_bytes_(match_.budget_bytes),
      find_match_(std::move(find_match)),
      refuse_(std::move(refuse)) {
  ++open_count;
}

void BudgetedStep::backward_ended(bool another_is_likely) {
  if (backwards_to_come_ > 0) --backwards_to_come_;
  if (most_wanted_bytes_ == 0 || another_is_likely || backwards_to_come_ > 0) return;
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
  given_bytes_ = match_.budget_bytes;
  changed_plan_ |= index > 0 && before.plan != match_.plan;
  diverged_ = !match_.prefix_hashes;
}

bool BudgetedStep::expects(const Op& op, size_t index) const {
  if (!match_.plan || index >= match_.graph->ops.size()) return false;
  const plan::Op& expected = match_.graph->ops[index];
  return expected.name == op.name() &&
         std::equal(expected.args.begin(), expected.args.end(), op.args.begin(), op.args.end(),
                    [](const plan::Arg& a, const TensorArg& b) { return a.value == b.value; });
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

// The tapes of steps under a budget whose values may be let go of: of open steps, and of those whose graph outlives
// them. All sessions count the same memory.
class Registry {
 public:
  void add(const std::shared_ptr<SharedTape>& tape) {
    const std::lock_guard lock(mutex_);
    std::erase_if(tapes_, [](const auto& t) { return t.expired(); });
    tapes_.push_back(tape);
  }
  std::vector<std::shared_ptr<SharedTape>> others(const SharedTape& own) { return living_but(&own); }
  std::vector<std::shared_ptr<SharedTape>> all() { return living_but(nullptr); }

 private:
  std::vector<std::shared_ptr<SharedTape>> living_but(const SharedTape* own) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<SharedTape>> living;
    for (const auto& weak : tapes_) {
      if (auto tape = weak.lock(); tape && tape.get() != own) living.push_back(std::move(tape));
    }
    return living;
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<SharedTape>> tapes_;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

int64_t BudgetedStep::forgotten_by_ended_steps() {
  int64_t bytes = 0;
  for (const auto& shared : registry().all()) {
    const SharedTape::Entry tape(*shared, SharedTape::Entry::Clock::now());
    if (tape.has_it() && tape->closed()) bytes += std::max<int64_t>(below_plain_bytes(*tape), 0);
  }
  return bytes;
}

std::shared_ptr<BudgetedStep> BudgetedStep::ended_with_graph() {
  std::shared_ptr<BudgetedStep> latest;
  for (const auto& shared : registry().all()) {
    const SharedTape::Entry tape(*shared, SharedTape::Entry::Clock::now());
    if (tape.has_it() && tape->ended_step && tape->ended_step->is_in_bytes()) latest = tape->ended_step;
  }
  return latest;
}

void BudgetedStep::attach(const std::shared_ptr<SharedTape>& shared, Tape& tape) {
  tape_ = shared;
  tape.count_reach();
  registry().add(shared);
}

// One thread at a time makes space, and has what it frees. Others that are short wait for their turn, with the tapes
// they have locked lent to the one whose turn it is: each is in an allocation, where it might let go of the same values
// itself.
class BudgetedStep::Turn {
 public:
  Turn() : is_first_(!std::exchange(has_turn_, true)) {
    if (!is_first_) return;
    SharedTape::Lock::lend_all(true);
    mutex().lock();
    SharedTape::Lock::lend_all(false);
  }
  ~Turn() {
    if (!is_first_) return;
    has_turn_ = false;
    mutex().unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Not inside another turn of this thread. To put a value away takes memory itself, so turns nest.
  bool is_first() const { return is_first_; }

 private:
  static std::mutex& mutex() {
    static auto* const instance = new std::mutex;
    return *instance;
  }
  static thread_local bool has_turn_;
  const bool is_first_;
};

thread_local bool BudgetedStep::Turn::has_turn_ = false;

// Lets go of the cheapest value of all these tapes; false if there is none. Leaves out tapes that another thread keeps
// locked beyond `until`.
bool BudgetedStep::evict_from(const Tapes& tapes, const Turn& turn, Time until) {
  SharedTape* where = nullptr;
  Eviction::Candidate best;
  int64_t found_at = 0;  // by that tape's clock
  const int64_t spare_bytes = turn.is_first() ? budget_bytes() - memory::taken_bytes() : 0;
  for (const auto& shared : tapes) {
    const SharedTape::Entry tape(*shared, until);
    if (!tape.has_it()) continue;
    const Eviction::Candidate found = Eviction(*tape, spare_bytes).cheapest();
    if (found.value == kNone || (where && found.score >= best.score)) continue;
    where = shared.get();
    best = found;
    found_at = tape->clock();
  }
  if (!where) return false;
  const SharedTape::Entry tape(*where, until);
  if (!tape.has_it()) return true;  // its thread goes on: look again
  if (!Eviction(*tape).evict(best)) {
    const bool is_one_less = best.kind || tape->is_root(tape->value(best.value));
    return is_one_less || tape->clock() != found_at;  // or its thread went on in between
  }
  if (tape->budgeted_step) ++tape->budgeted_step->evictions_;
  return true;
}

// Only in forward: in backward what is rebuilt comes on top, and gradients that were to go have gone. To look at a tape
// takes time in proportion to its length, so it must have grown in proportion before the next look.
void BudgetedStep::raise_budget(SharedTape& own, int64_t bytes) {
  if (!match_.raised_to_share) return;
  const SharedTape::Entry tape(own, SharedTape::Entry::Clock::now() + kPatience);
  if (!tape.has_it() || !tape->timeline || tape->timeline->had_backward()) return;
  const ValueId values = tape->next_value();
  if (values < raise_again_at_) return;
  raise_again_at_ = values + values / kLooksPerDoubling + 1;
  const auto plain_bytes = static_cast<double>(memory::live_bytes() + bytes + below_plain_bytes(*tape));
  given_bytes_ = std::max<int64_t>(given_bytes_, static_cast<int64_t>(match_.share * plain_bytes));
}

// What is live when a step begins tells little of what the plain program would take, if steps of other threads come and
// go meanwhile and let go of values as this one does. Whoever is short of memory, or begins a backward, sees what all
// of them together are without.
void BudgetedStep::raise_shared_budget(const Tapes& tapes, int64_t bytes) {
  if (!has_share_of_shared()) return;
  int64_t plain_bytes = memory::live_bytes() + bytes;
  for (const auto& shared : tapes) {
    const SharedTape::Entry tape(*shared, SharedTape::Entry::Clock::now());
    if (tape.has_it()) plain_bytes += below_plain_bytes(*tape);
  }
  for (int64_t most = shared_plain; plain_bytes > most && !shared_plain.compare_exchange_weak(most, plain_bytes);) {
  }
  given_bytes_ =
      std::max<int64_t>(given_bytes_, static_cast<int64_t>(match_.share * static_cast<double>(shared_plain.load())));
}

// As long as nothing is forgotten, the tape holds more than the plain program only in case something will be. If no
// more memory than that is missing, the plain program would fit.
void BudgetedStep::let_go_extras(SharedTape& own, int64_t bytes) {
  const SharedTape::Entry tape(own, SharedTape::Entry::Clock::now() + kPatience);
  if (!tape.has_it() || follows_plan() || evictions_ > 0) return;
  collect(*tape);  // operators hold the numbers they were given, which are tensors of a few bytes
  const auto missing = [&] { return memory::taken_bytes() + bytes - budget_bytes(); };
  if (missing() > -below_plain_bytes(*tape)) return;
  let_go_roots(*tape, [&] { return missing() <= 0; });
}

void BudgetedStep::begins_backward() {
  if (!has_share_of_shared()) return;
  const auto own = tape_.lock();
  if (!own) return;
  Tapes tapes = registry().others(*own);
  tapes.push_back(own);
  raise_shared_budget(tapes, 0);
}

void BudgetedStep::make_space(int64_t bytes) {
  const auto own = tape_.lock();
  if (!own) return;
  const memory::MakingSpace making;
  const Turn turn;
  const auto in_time = [] { return SharedTape::Entry::Clock::now() + kPatience; };
  const bool strict = own->pressure().strict;
  const bool may_sweep = !strict && !ended_;  // what nothing needs has gone with the step
  if (may_sweep) {
    const SharedTape::Entry tape(*own, in_time());
    if (tape.has_it() && tape->sweeping.may_have_idle()) let_go_idle(*tape);
  }  // unlocked, so that what was let go of is freed
  if (may_sweep) raise_budget(*own, bytes);
  if (may_sweep) let_go_extras(*own, bytes);
  Tapes tapes = registry().others(*own);
  tapes.push_back(own);
  raise_shared_budget(tapes, bytes);
  bool claimed = claim(bytes);
  for (const auto until : {SharedTape::Entry::Clock::now(), in_time()}) {  // who can be had at once, first
    while (!claimed && evict_from(tapes, turn, until)) claimed = claim(bytes);
  }
  if (!claimed && may_sweep) {
    const SharedTape::Entry tape(*own, in_time());
    if (tape.has_it()) let_go_roots(*tape);
  }
  if (claimed || claim(bytes)) return;
  if (strict && most_wanted_bytes_ == 0) throw OverBudget();
  most_wanted_bytes_ = std::max<int64_t>(most_wanted_bytes_, memory::taken_bytes() + bytes);
  memory::claim(bytes, INT64_MAX);
}

void BudgetedStep::make_space_for_other(int64_t bytes) {
  const Turn turn;
  if (!turn.is_first()) return;
  const auto own = tape_.lock();
  if (!own) return;
  Tapes tapes = registry().others(*own);
  tapes.push_back(own);
  const auto until = SharedTape::Entry::Clock::now() + kPatienceForOther;
  while (!claim(bytes) && evict_from(tapes, turn, until)) {
  }
}

}  // namespace retrace
