// A step that needed more than its budget, and what would have been enough.
#pragma once

#include <string>

#include <retrace/errors.h>

#include "session/step_peak.h"
#include "tape/budgeted_step.h"
#include "tape/timeline.h"

namespace retrace {

class Shortage {
 public:
  // Of a step that began with `start` and did what `timeline` says. `not_counted`: a sentence about what may come
  // later, or empty.
  Shortage(const Timeline& timeline, const BudgetedStep& step, const StepStart& start, std::string not_counted);

  int64_t smallest_bytes() const { return smallest_.bytes; }
  int64_t smallest_bytes(
      const StepStart& start) const;  // of the next step, if it does the same and begins with `start`
  [[noreturn]] void refuse(int64_t smallest_bytes) const;

 private:
  StepPeak smallest_, plain_;
  const StepStart end_ = StepStart::now();
  int64_t budget_bytes_ = 0;
  InfeasibleBudget::Needs needs_;
  std::string not_counted_;
};

}  // namespace retrace
