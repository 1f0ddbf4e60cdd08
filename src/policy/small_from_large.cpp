#include "policy/small_from_large.h"

#include <vector>

namespace retrace {
namespace {

// How many times larger. A heuristic: the first values of a chain are made from others of their own size, or a few
// times as large. Those are to be forgotten, since more values will follow.
constexpr int64_t kFarLarger = 16;

constexpr int kMostAncestors = 32;  // to look at: a long recipe has much on it that is forgotten

// The largest value that would have to be made on the way to `id`, as far as it is near.
int64_t largest_on_the_way(TapeView& tape, TapeView::ValueId id) {
  tape.begin_walk();
  int64_t largest = 0;
  std::vector<TapeView::ValueId> work{id};
  for (int looked = 0; !work.empty() && looked < kMostAncestors; ++looked) {
    const TapeView::Value v = tape.value(work.back());
    work.pop_back();
    largest = std::max(largest, v.bytes);
    if (tape.was_at_op(v.producer)) continue;
    for (const TapeView::Arg& arg : tape.args(v.producer)) {
      const bool comes_back = !arg.shape_only && !tape.value(arg.value).is_source();
      if (comes_back && !tape.was_at_value(arg.value)) work.push_back(arg.value);
    }
  }
  return largest;
}

}  // namespace

bool SmallFromLarge::is_worth_holding(TapeView& tape, ValueId id) {
  const int64_t bytes = tape.value(id).bytes;
  saved_bytes_ += bytes;
  const int64_t enough_bytes = std::max(saved_bytes_, kFarLarger * (held_bytes_ + bytes));
  if (enough_bytes >= largest_bytes_ || largest_on_the_way(tape, id) <= enough_bytes) return false;
  held_bytes_ += bytes;
  return true;
}

}  // namespace retrace
