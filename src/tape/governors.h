// Who is asked before an allocation: the step or checkpoint of its thread and, by threads that have none, those of the others.
#pragma once

#include <atomic>
#include <memory>

#include "memory/allocator.h"
#include "tape/shared_tape.h"

namespace retrace {

// Without a budget: nothing is held that costs more than it saves, once more would be live than the plain program has had
// by now.
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

// Of the outermost scope of a thread. From one to the other, threads without a scope ask it, too.
void governor_begins(const std::shared_ptr<memory::Governor>& governor);
void governor_ends(const memory::Governor& governor);

}  // namespace retrace
