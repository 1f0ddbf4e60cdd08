#include "tape/run.h"

#include <algorithm>

namespace retrace {

Run::Run(int64_t budget_bytes, bool allows_bfloat16, Guide guide, FindGuide find_guide, Refuse refuse)
    : budget_bytes_(budget_bytes),
      allows_bfloat16_(allows_bfloat16),
      guide_(std::move(guide)),
      find_guide_(std::move(find_guide)),
      refuse_(std::move(refuse)) {}

void Run::check_budget() {
  if (most_wanted_bytes_ == 0) return;
  refused_ = true;
  refuse_();
}

void Run::meets_op(size_t index, uint64_t prefix_hash) {
  if (diverged_) return;
  const auto& expected = guide_.prefix_hashes;
  if (expected && index < expected->size() && (*expected)[index] == prefix_hash) return;
  guide_ = find_guide_(index, prefix_hash);
  diverged_ = !guide_.plan;
}

plan::Choice Run::choice(ValueId value) const {
  const plan::Choices& choices = guide_.plan->choices;
  const auto at = static_cast<size_t>(value);
  return at < choices.size() ? choices[at] : plan::Choice::keep;
}

void Run::make_room(int64_t wanted_bytes) {
  if (!tape_) return;
  {
    const Tape::Lock lock(*tape_);
    int64_t missing = wanted_bytes - budget_bytes();
    while (missing > 0) {
      const int64_t freed = tape_->evict_one();
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
