#include "policy/frontiers.h"

#include <algorithm>
#include <cstdint>

namespace retrace {
namespace {

constexpr int64_t kMostCandidates = 64;  // the time to search grows with this, times the operators
constexpr int kHalvings = 12;  // of the interval in which the smallest peak lies: to a few parts in ten thousand

int64_t held_bytes(const Lifetime& v) {
  if (v.made_again) return 0;
  return v.overwritten ? 2 * v.bytes : v.bytes;
}

}  // namespace

// What one segment takes, operator by operator.
class Frontiers::Segment {
 public:
  Segment(const Frontiers& all, int32_t first)
      : all_(&all), first_(first), again_bytes_(first == 0 ? 0 : all.again_bytes_[static_cast<size_t>(first) - 1]) {}

  void add(int32_t op) {
    const auto at = static_cast<size_t>(op);
    for (const Lifetime& v : all_->made_at_[at]) {
      (v.saved ? saved_bytes_ : passing_bytes_) += v.bytes;
      frontier_bytes_ += held_bytes(v);
    }
    rebuild_bytes_ = std::max(rebuild_bytes_, again_bytes_ + saved_bytes_ + passing_bytes_);
    end_gradient_bytes_ = all_->gradient_bytes_[at];
    backward_bytes_ = std::max(backward_bytes_, again_bytes_ + saved_bytes_ + end_gradient_bytes_);
    for (const Lifetime& v : all_->last_read_at_[at]) {
      if (v.made >= first_ && !v.saved) passing_bytes_ -= v.bytes;
    }
    for (const Lifetime& v : all_->held_until_[at]) {
      if (v.made >= first_) frontier_bytes_ -= held_bytes(v);
    }
  }

  int64_t saved_bytes() const { return saved_bytes_; }        // by its operators so far
  int64_t least_bytes() const { return rebuild_bytes_; }      // while they ran, without gradients: never falls
  int64_t frontier_bytes() const { return frontier_bytes_; }  // to hold after them, beside earlier frontiers
  // If it ends here: while it is rebuilt, beside the gradients of what follows it; and while backward goes through it.
  int64_t most_bytes() const { return std::max(rebuild_bytes_ + end_gradient_bytes_, backward_bytes_); }

 private:
  const Frontiers* all_;
  int32_t first_;
  int64_t again_bytes_;  // of what was made before it and is made again for it
  int64_t saved_bytes_ = 0;
  int64_t passing_bytes_ = 0;  // not saved, and read by operators to come
  int64_t frontier_bytes_ = 0;
  int64_t rebuild_bytes_ = 0;
  int64_t backward_bytes_ = 0;
  int64_t end_gradient_bytes_ = 0;
};

Frontiers::Frontiers(int32_t operators, const std::vector<Lifetime>& values, const std::vector<Gradient>& gradients)
    : made_at_(static_cast<size_t>(operators)),
      last_read_at_(static_cast<size_t>(operators)),
      held_until_(static_cast<size_t>(operators)),
      again_bytes_(static_cast<size_t>(operators)),
      gradient_bytes_(static_cast<size_t>(operators)) {
  // From after operator `begin` to before operator `end`.
  const auto add_between = [&](std::vector<int64_t>& bytes, int32_t begin, int32_t end, int64_t by) {
    bytes[static_cast<size_t>(begin)] += by;
    if (end < operators) bytes[static_cast<size_t>(end)] -= by;
  };
  for (const Lifetime& v : values) {
    made_at_[static_cast<size_t>(v.made)].push_back(v);
    if (v.last_read < operators) last_read_at_[static_cast<size_t>(v.last_read)].push_back(v);
    if (v.held_until < operators) held_until_[static_cast<size_t>(v.held_until)].push_back(v);
    if (v.made_again) add_between(again_bytes_, v.made, v.last_read, v.bytes);
  }
  for (const Gradient& g : gradients) add_between(gradient_bytes_, g.made, g.read + 1, g.bytes);
  for (size_t op = 1; op < again_bytes_.size(); ++op) {
    again_bytes_[op] += again_bytes_[op - 1];
    gradient_bytes_[op] += gradient_bytes_[op - 1];
  }
}

Frontiers::Segment Frontiers::segment_after(int32_t moment) const { return {*this, moment + 1}; }

int64_t Frontiers::peak_bytes(const std::vector<int32_t>& moments) const {
  int64_t peak = 0, held = 0;
  Segment segment = segment_after(-1);
  auto next = moments.begin();
  for (int32_t op = 0; op < operators(); ++op) {
    segment.add(op);
    if (op + 1 == operators()) peak = std::max(peak, held + segment.most_bytes());
    if (next == moments.end() || *next != op) continue;
    peak = std::max(peak, held + segment.most_bytes());
    held += segment.frontier_bytes();
    segment = segment_after(op);
    ++next;
  }
  return peak;
}

int64_t Frontiers::largest_saved_bytes(const std::vector<int32_t>& moments) const {
  int64_t largest = 0, saved = 0;
  auto next = moments.begin();
  for (int32_t op = 0; op < operators(); ++op) {
    for (const Lifetime& v : made_at_[static_cast<size_t>(op)]) saved += v.saved ? v.bytes : 0;
    largest = std::max(largest, saved);
    if (next == moments.end() || *next != op) continue;
    saved = 0;
    ++next;
  }
  return largest;
}

// In each stretch the last of the moments with the least to hold and to make again.
std::vector<int32_t> Frontiers::candidates() const {
  Segment whole = segment_after(-1);
  for (int32_t op = 0; op < operators(); ++op) whole.add(op);
  const int64_t stretch_bytes = whole.saved_bytes() / kMostCandidates;
  std::vector<int32_t> found;
  int64_t smallest = 0, begun_at = -1;
  Segment so_far = segment_after(-1);
  for (int32_t op = 0; op + 1 < operators(); ++op) {
    so_far.add(op);
    if (so_far.saved_bytes() == 0) continue;
    const int64_t bytes = so_far.frontier_bytes() + again_bytes_[static_cast<size_t>(op)];
    if (begun_at < 0 || so_far.saved_bytes() - begun_at > stretch_bytes) {
      begun_at = so_far.saved_bytes();
      found.push_back(op);
      smallest = bytes;
    } else if (bytes <= smallest) {
      found.back() = op;
      smallest = bytes;
    }
  }
  return found;
}

// Among given moments. Of two ways to the same moment within a peak, the one that holds less is never worse.
class Frontiers::Search {
 public:
  Search(const Frontiers& all, const std::vector<int32_t>& candidates) : moments_(candidates) {
    moments_.insert(moments_.begin(), -1);
    moments_.push_back(all.operators() - 1);
    taken_.resize(moments_.size() * moments_.size());
    for (size_t from = 0; from + 1 < moments_.size(); ++from) {
      Segment segment = all.segment_after(moments_[from]);
      size_t to = from + 1;
      for (int32_t op = moments_[from] + 1; op < all.operators(); ++op) {
        segment.add(op);
        for (; to < moments_.size() && moments_[to] == op; ++to) {
          between(from, to) = {segment.most_bytes(), segment.frontier_bytes()};
        }
      }
    }
  }

  // Whether it can be done within so many bytes; `found` has the moments.
  bool within(int64_t limit_bytes, std::vector<int32_t>& found) {
    constexpr int64_t kNever = INT64_MAX;
    std::vector<int64_t> held(moments_.size(), kNever);
    std::vector<size_t> before(moments_.size());
    held[0] = 0;
    for (size_t to = 1; to < moments_.size(); ++to) {
      for (size_t from = 0; from < to; ++from) {
        const Taken& taken = between(from, to);
        if (held[from] == kNever || held[from] + taken.most_bytes > limit_bytes) continue;
        if (held[from] + taken.frontier_bytes >= held[to]) continue;
        held[to] = held[from] + taken.frontier_bytes;
        before[to] = from;
      }
    }
    if (held.back() == kNever) return false;
    found.clear();
    for (size_t at = before.back(); at > 0; at = before[at]) found.insert(found.begin(), moments_[at]);
    return true;
  }

 private:
  struct Taken {
    int64_t most_bytes = 0;
    int64_t frontier_bytes = 0;
  };
  Taken& between(size_t from, size_t to) { return taken_[from * moments_.size() + to]; }

  std::vector<int32_t> moments_;  // the beginning and the end too
  std::vector<Taken> taken_;
};

std::vector<int32_t> Frontiers::moments() const {
  Search search(*this, candidates());
  std::vector<int32_t> best, found;
  int64_t high = peak_bytes({}), low = 0;
  for (int i = 0; i < kHalvings; ++i) {
    const int64_t limit = low + (high - low) / 2;
    if (search.within(limit, found)) {
      best = found;
      high = limit;
    } else {
      low = limit;
    }
  }
  return best;
}

}  // namespace retrace
