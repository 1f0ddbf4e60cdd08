// Who is asked before an allocation: the step or checkpoint of its thread, and those of all other threads.
#pragma once

#include <atomic>
#include <memory>

#include "memory/allocator.h"
#include "tape/shared_tape.h"

namespace retrace {

// Of a scope without a budget. Once more would be live than the plain program has had by now, lets go of what is held
// and costs more memory than it saves.
class PlainGovernor final : public memory::Governor {
 public:
  explicit PlainGovernor(const std::shared_ptr<SharedTape>& tape) : tape_(tape) {}

  // By its own tape and, once for each allocation, by those of other threads: all have the same peak.
  int64_t budget_bytes() const override;
  void make_space(int64_t bytes) override;
  void make_space_for_other(int64_t bytes) override;
  int64_t limit_bytes() const;  // by its own tape

 private:
  void make_own_space(int64_t bytes);

  std::weak_ptr<SharedTape> tape_;
  std::atomic<int64_t> plain_peak_bytes_{0};
  memory::PeakWatch peak_;
  mutable bool asked_others_ = false;  // for the allocation that its thread is in
};

// The governor of a thread's outermost scope. Between these two calls, threads without a budget ask it too.
void governor_begins(const std::shared_ptr<PlainGovernor>& governor);
void governor_begins(const std::shared_ptr<memory::Governor>& budget);
void governor_ends(const memory::Governor& governor);

}  // namespace retrace
