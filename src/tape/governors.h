// Who is asked before an allocation: the step or checkpoint of its thread. Threads that have none ask those of all
// other threads.
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

  int64_t budget_bytes() const override;
  void make_space(int64_t bytes) override;
  void make_space_for_other(int64_t bytes) override;

 private:
  std::weak_ptr<SharedTape> tape_;
  std::atomic<int64_t> plain_peak_bytes_{0};
  memory::PeakWatch peak_;
};

// The governor of a thread's outermost scope. Between these two calls, threads without a scope ask it too.
void governor_begins(const std::shared_ptr<memory::Governor>& governor);
void governor_ends(const memory::Governor& governor);

}  // namespace retrace
