// The bytes of a timeline's events: what was live, beside the values of the tape, while each event was the latest one.
#pragma once

#include <unordered_map>

#include "memory/allocator.h"
#include "plan/graph/graph.h"

namespace retrace {

class EventBytes {
 public:
  EventBytes() { end_window(); }

  // A window has ended, and the next one begins. Its bytes are those of the latest event.
  void end_window();
  void add_ended_to(plan::Event& event) const;
  void add_open_to(plan::Event& event) const;
  plan::Event event(plan::EventKind kind, int32_t id) const;  // one that begins with the latest window

  void op_begins();                       // with the latest window
  int64_t op_ran();                       // returns the most that it had allocated at once
  plan::Event op_made(int32_t id) const;  // its event, where the latest window begins
  // The tape has made a copy that the plain program does not have; and lets go of it.
  void copied(int32_t value, int64_t bytes);
  void copy_gone(int32_t value);
  bool has_copy(int32_t value) const { return copies_.contains(value); }

 private:
  struct Part {
    int64_t peak = 0, plain_peak = 0;
  };
  memory::OtherBytes window_;                    // as the latest one began
  int64_t plain_peak_ = 0;                       // of the one before: the most without copies
  Part ended_part_;                              // of the open one, until the last copy in it went
  memory::OtherBytes op_window_;                 // as the running op began
  int64_t copied_before_op_ = 0;                 // likewise, with copies made for it
  std::unordered_map<int32_t, int64_t> copies_;  // and their bytes
  int64_t copied_bytes_ = 0;                     // of those
};

}  // namespace retrace
