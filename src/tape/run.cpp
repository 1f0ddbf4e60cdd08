#include "tape/run.h"

#include <algorithm>

namespace retrace {

Run::Run(bool allows_bfloat16, Guide guide, FindGuide find_guide, Refuse refuse)
    : only_measures_(guide.budget_bytes == kNoBudget),
      allows_bfloat16_(allows_bfloat16),
      guide_(std::move(guide)),
      find_guide_(std::move(find_guide)),
      refuse_(std::move(refuse)) {}

void Run::check_budget() {
  if (most_wanted_bytes_ == 0) return;
  // While a graph is alive another backward is likely to come, which may need more: then the whole step tells.
  if (const auto tape = tape_.lock(); tape && tape->has_living_graph()) return;
  refused_ = true;
  refuse_(*this);
}

void Run::meets_op(size_t index, uint64_t prefix_hash) {
  if (diverged_ || only_measures_) return;
  const auto& expected = guide_.prefix_hashes;
  if (expected && index < expected->size() && (*expected)[index] == prefix_hash) return;
  guide_ = find_guide_(index, prefix_hash);
  diverged_ = !guide_.plan;
}

bool Run::holds_root(ValueId value) const {
  const auto& unheld = guide_.unheld_roots;
  const auto at = static_cast<size_t>(value);
  return !guide_.plan || !unheld || at >= unheld->size() || (*unheld)[at] == 0;
}

plan::Choice Run::choice(ValueId value) const {
  const plan::Choices& choices = guide_.plan->choices;
  const auto at = static_cast<size_t>(value);
  return at < choices.size() ? choices[at] : plan::Choice::keep;
}

void Run::make_room(int64_t wanted_bytes) {
  const auto tape = tape_.lock();
  if (!tape) return;
  {
    const Tape::Lock lock(*tape);
    const int64_t live_before = memory::live_bytes();
    int64_t missing = wanted_bytes - budget_bytes();
    const auto free_some = [&](bool freed) {
      if (freed) missing = wanted_bytes - budget_bytes() - (live_before - memory::live_bytes());
    };
    if (!strict_ && tape->may_have_idle()) {
      free_some(tape->let_go_idle());
      if (missing > 0) free_some(tape->let_go_unpaying_roots());
    }
    while (missing > 0) {
      const int64_t freed = tape->evict_one();
      if (freed == 0) break;
      ++evictions_;
      missing -= freed;
    }
    if (missing <= 0) return;
  }
  if (strict_ && most_wanted_bytes_ == 0) throw OutOfRoom();
  most_wanted_bytes_ = std::max(most_wanted_bytes_, wanted_bytes);
}

}  // namespace retrace
