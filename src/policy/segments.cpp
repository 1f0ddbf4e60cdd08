#include "policy/segments.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "policy/balance.h"
#include "policy/frontiers.h"

namespace retrace {
namespace {

using ValueId = TapeView::ValueId;
using OpId = TapeView::OpId;

// Cut vertices are missing where one part in so many of all that is saved lies between two of them.
constexpr int64_t kLongStretch = 4;
// Frontiers must lower the peak to this share of what cut vertices reach.
constexpr double kWorthwhile = 0.85;
// So many operators are run again for what is not held although others read it after a moment.
constexpr int kMostSteps = 8;

int64_t saved_bytes(const TapeView& tape, OpId op) {
  int64_t bytes = 0;
  for (const ValueId id : tape.results(op)) {
    const TapeView::Value v = tape.value(id);
    bytes += v.handles > 0 ? v.bytes : 0;
  }
  return bytes;
}

// Saved bytes between two cut vertices that make a stretch without any.
int64_t long_bytes(const TapeView& tape, Segmenting& segmenting) {
  if (segmenting.saved_bytes == 0) {
    for (OpId id = tape.op_from(0); id >= 0; id = tape.op_from(id + 1)) {
      segmenting.saved_bytes += saved_bytes(tape, id);
    }
  }
  return segmenting.saved_bytes / kLongStretch;
}

bool is_long(const TapeView& tape, Segmenting& segmenting, const std::vector<OpId>& order) {
  int64_t bytes = 0;
  for (const OpId id : order) bytes += saved_bytes(tape, id);
  return bytes >= long_bytes(tape, segmenting);
}

// Cut vertices that the rebuild makes on its way.
std::vector<ValueId> cuts_on_the_way(const TapeView& tape, const std::vector<ValueId>& cuts,
                                     const std::vector<OpId>& order, ValueId target) {
  std::vector<ValueId> crossed;
  auto cut = std::partition_point(cuts.begin(), cuts.end(),
                                  [&](ValueId v) { return tape.value(v).recorded_at < order.front(); });
  for (; cut != cuts.end() && *cut < target; ++cut) {
    if (std::binary_search(order.begin(), order.end(), tape.value(*cut).producer)) crossed.push_back(*cut);
  }
  return crossed;
}

std::vector<ValueId> square_root_of(const std::vector<ValueId>& cuts) {
  std::vector<ValueId> chosen;
  const auto period = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(cuts.size() + 1))));
  for (size_t i = period; i <= cuts.size(); i += period) chosen.push_back(cuts[i - 1]);
  return chosen;
}

// The values of a rebuild, and when they are made and read.
class Lifetimes {
 public:
  Lifetimes(const TapeView& tape, const std::vector<OpId>& order) : tape_(tape), order_(order) {
    for (size_t i = 0; i < order.size(); ++i) {
      for (const ValueId v : tape.results(order[i])) add(v, i);
    }
    find_reads();
    for (size_t i = lifetimes_.size(); i-- > 0;) let_be_made_again(i);
    for (size_t i = 0; i < lifetimes_.size(); ++i) lifetimes_[i].saved |= waited_for_[i] && !lifetimes_[i].made_again;
  }

  const std::vector<Lifetime>& all() const { return lifetimes_; }
  const std::vector<Gradient>& gradients() const { return gradients_; }
  ValueId value(size_t position) const { return values_[position]; }
  int64_t peak_bytes() const { return Frontiers(count(), lifetimes_, {}).peak_bytes({}); }  // of the rebuild as one
  int32_t count() const { return static_cast<int32_t>(order_.size()); }

  int32_t position_of(OpId op) const {
    return static_cast<int32_t>(std::lower_bound(order_.begin(), order_.end(), op) - order_.begin());
  }

 private:
  void add(ValueId id, size_t made) {
    const TapeView::Value v = tape_.value(id);
    if (v.held || v.rebuilt || !positions_.emplace(id, lifetimes_.size()).second) return;
    const auto at = static_cast<int32_t>(made);
    lifetimes_.push_back(
        {.made = at, .last_read = at, .held_until = at, .bytes = v.bytes, .saved = v.handles > 0 && v.pending > 0});
    has_gradient_.push_back(v.has_gradient);
    without_gradient_.push_back(has_gradient_.back() ? v.bytes : 0);
    values_.push_back(id);
    parts_.push_back(0);
    waited_for_.push_back(0);
  }

  Lifetime* find(ValueId id) {
    const auto found = positions_.find(id);
    return found == positions_.end() ? nullptr : &lifetimes_[found->second];
  }

  // By whatever is still to be run in this backward, for this target or another.
  void find_reads() {
    for (OpId id = tape_.op_before(tape_.next_op()); id >= order_.front(); id = tape_.op_before(id)) {
      if (!tape_.is_pending(id)) continue;
      const int32_t at = position_of(id);
      const bool runs_later = at == count() || order_[static_cast<size_t>(at)] != id;
      for (const TapeView::Arg& arg : tape_.args(id)) {
        if (!arg.shape_only) note_weight(arg.value, at);
        Lifetime* const read = arg.shape_only ? nullptr : find(arg.value);
        if (!read) continue;
        read->last_read = read->held_until = std::max(read->last_read, at);
        read->overwritten |= arg.becomes >= 0;
        waited_for_[static_cast<size_t>(read - lifetimes_.data())] |= runs_later;
        add_gradient(static_cast<size_t>(read - lifetimes_.data()), at, arg.bytes);
      }
    }
    // Of what no operator reads, and of what was read in parts, which are put together.
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      const Lifetime& v = lifetimes_[i];
      const bool in_parts = without_gradient_[i] < v.bytes && parts_[i] > 1;
      if (has_gradient_[i]) gradients_.push_back({v.made, v.made, in_parts ? v.bytes : without_gradient_[i]});
    }
  }

  // Gradients of a weight that several operators read add up, from its last reader to its first: there is a sum, and
  // while backward goes through a reader also a summand and the next sum. What else comes from outside is taken for a
  // weight.
  void note_weight(ValueId id, int32_t at) {
    if (at >= count()) return;
    const TapeView::Value v = tape_.value(id);
    if (!v.external || !v.has_gradient) return;
    const auto [last, is_last] = weights_.try_emplace(id, at);
    if (is_last || last->second == at) return;
    gradients_.push_back({at, last->second - 1, v.bytes});
    gradients_.push_back({at, at, 2 * v.bytes});
    last->second = at;
  }

  // By the last reader first.
  void add_gradient(size_t position, int32_t at, int64_t bytes) {
    bytes = std::min(bytes, without_gradient_[position]);
    if (bytes == 0) return;
    without_gradient_[position] -= bytes;
    ++parts_[position];
    gradients_.push_back({lifetimes_[position].made, at, bytes});
  }

  // What is not saved, and made in few steps from less than half its bytes that are, is not worth holding: a product
  // that a whole layer reads part by part, or a mask.
  void let_be_made_again(size_t position) {
    Lifetime& result = lifetimes_[position];
    if (result.saved || result.overwritten || result.held_until == result.made) return;
    std::vector<Lifetime*> sources;
    std::vector<ValueId> work{values_[position]};
    int64_t bytes = 0;
    for (int steps = 0; !work.empty(); ++steps) {
      if (steps == kMostSteps) return;
      const OpId producer = tape_.value(work.back()).producer;
      work.pop_back();
      for (const TapeView::Arg& arg : tape_.args(producer)) {
        Lifetime* const source = arg.shape_only ? nullptr : find(arg.value);
        if (!source) continue;
        if (!source->saved) {
          work.push_back(arg.value);
        } else if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
          sources.push_back(source);
          bytes += source->bytes;
        }
      }
    }
    if (2 * bytes > result.bytes) return;
    result.made_again = true;
    for (Lifetime* const source : sources) source->held_until = std::max(source->held_until, result.last_read);
  }

  const TapeView& tape_;
  const std::vector<OpId>& order_;
  std::vector<Lifetime> lifetimes_;
  std::vector<ValueId> values_;  // parallel, as are the next four
  std::vector<char> has_gradient_;
  std::vector<int64_t> without_gradient_;  // bytes that no reader has been found for
  std::vector<int32_t> parts_;             // in which it was read
  std::vector<char> waited_for_;           // by an operator that runs only when backward asks for its result
  std::vector<Gradient> gradients_;
  std::unordered_map<ValueId, int32_t> weights_;  // by which operator it is read next
  std::unordered_map<ValueId, size_t> positions_;
};

struct Crossing {
  std::vector<ValueId> values;
  int64_t copied_bytes = 0;  // of those that are overwritten later
};

Crossing crossing(const Lifetimes& lifetimes, const std::vector<int32_t>& moments) {
  Crossing all;
  for (size_t i = 0; i < lifetimes.all().size(); ++i) {
    const Lifetime& v = lifetimes.all()[i];
    const auto moment = std::lower_bound(moments.begin(), moments.end(), v.made);
    if (v.made_again || moment == moments.end() || *moment >= v.held_until) continue;
    all.values.push_back(lifetimes.value(i));
    if (v.overwritten) all.copied_bytes += v.bytes;
  }
  std::sort(all.values.begin(), all.values.end());
  return all;
}

}  // namespace

Segmentation choose_segments(TapeView& tape, Segmenting& segmenting, const std::vector<OpId>& order, ValueId target) {
  if (order.empty() || !(segmenting.in_segments || segmenting.below_plain)) return {};
  const std::vector<ValueId> crossed = cuts_on_the_way(tape, segmenting.cuts, order, target);
  Segmentation chosen;
  if (!segmenting.keeps_cuts) chosen.held = square_root_of(crossed);
  if (!chosen.held.empty()) chosen.until = tape.value(chosen.held.back()).producer;
  if (tape.value(target).pending == 0 || !is_long(tape, segmenting, order)) return chosen;

  const Lifetimes lifetimes(tape, order);
  if (!segmenting.in_segments && lifetimes.peak_bytes() <= below_plain_bytes(tape)) return {};
  const Frontiers frontiers(lifetimes.count(), lifetimes.all(), lifetimes.gradients());
  const int64_t whole_bytes = frontiers.peak_bytes({});
  if (whole_bytes <= segmenting.segment_bytes) return {};
  const auto moments_of = [&](const std::vector<ValueId>& cuts) {
    std::vector<int32_t> moments;
    for (const ValueId cut : cuts) moments.push_back(lifetimes.position_of(tape.value(cut).producer));
    return moments;
  };
  if (frontiers.largest_saved_bytes(moments_of(crossed)) < long_bytes(tape, segmenting)) return chosen;

  const auto reached = static_cast<double>(std::min(whole_bytes, frontiers.peak_bytes(moments_of(chosen.held))));
  const std::vector<int32_t> moments = frontiers.moments();
  Crossing held = crossing(lifetimes, moments);
  const int64_t peak_bytes = frontiers.peak_bytes(moments) + held.copied_bytes;
  if (moments.empty() || static_cast<double>(peak_bytes) > kWorthwhile * reached) return chosen;
  // Contents of one storage, each written over the other, count above as if each had its own.
  if (!segmenting.in_segments && held.copied_bytes > 0) return {};
  segmenting.segment_bytes = std::max(segmenting.segment_bytes, peak_bytes);
  chosen.held = std::move(held.values);
  chosen.until = order[static_cast<size_t>(moments.back())];
  return chosen;
}

}  // namespace retrace
