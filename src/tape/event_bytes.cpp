#include "tape/event_bytes.h"

#include <algorithm>
#include <utility>

namespace retrace {
namespace {

void raise(plan::Event& event, int64_t peak, int64_t plain_peak) {
  const int64_t most_plain = std::max(event.other_peak - event.extra_at_peak, plain_peak);
  event.other_peak = std::max(event.other_peak, peak);
  event.extra_at_peak = event.other_peak - most_plain;
}

}  // namespace

void EventBytes::end_window() {
  window_ = memory::next_window(window_);
  const Part part = std::exchange(ended_part_, {});
  plain_peak_ = std::max(part.plain_peak, window_.peak - copied_bytes_);
  window_.peak = std::max(window_.peak, part.peak);
}

void EventBytes::add_ended_to(plan::Event& event) const { raise(event, window_.peak, plain_peak_); }

void EventBytes::add_open_to(plan::Event& event) const {
  const int64_t peak = memory::this_window().peak;
  raise(event, std::max(peak, ended_part_.peak), std::max(peak - copied_bytes_, ended_part_.plain_peak));
}

plan::Event EventBytes::event(plan::EventKind kind, int32_t id) const {
  return {kind, id, window_.now, window_.now, window_.gradients, copied_bytes_, copied_bytes_};
}

void EventBytes::op_begins() {
  op_window_ = window_;
  copied_before_op_ = copied_bytes_;
}

// What copies it made go, it would have had without them.
int64_t EventBytes::op_ran() {
  end_window();
  return std::max<int64_t>(plain_peak_ - (op_window_.now - copied_before_op_), 0);
}

plan::Event EventBytes::op_made(int32_t id) const {
  return {plan::EventKind::op, id, op_window_.now, window_.now, op_window_.gradients, copied_before_op_, copied_bytes_};
}

void EventBytes::copied(int32_t value, int64_t bytes) {
  copied_bytes_ += bytes;
  copied_before_op_ += bytes;  // if one has run: it was made for that
  copies_.emplace(value, bytes);
}

void EventBytes::copy_gone(int32_t value) {
  const auto copy = copies_.find(value);
  if (copy == copies_.end()) return;
  // In the middle of a window: what has been live in it until now was so beside the copy, what comes is not.
  window_ = memory::next_window(window_);
  ended_part_.peak = std::max(ended_part_.peak, window_.peak);
  ended_part_.plain_peak = std::max(ended_part_.plain_peak, window_.peak - copied_bytes_);
  copied_bytes_ -= copy->second;
  copies_.erase(copy);
}

}  // namespace retrace
