// Two tapes of one program at different batch sizes. What a tensor takes is linear in the batch, so two tapes tell the
// bytes of every event at any batch, exactly; times are linear by assumption.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "plan/graph/graph.h"

namespace retrace::doctor {

class TwoTapes {
 public:
  // `batches`: of the first and of the second; without them they are read off the shapes. Throws UsageError if the
  // tapes are not of the same operators in the same order, or if the batches are equal, or cannot be told.
  TwoTapes(plan::Graph first, plan::Graph second, std::optional<std::pair<int64_t, int64_t>> batches = {});

  int64_t first_batch() const { return batches_.first; }
  int64_t second_batch() const { return batches_.second; }

  // The step at another batch. Throws UsageError if its bytes cannot be counted.
  plan::Graph at(int64_t batch) const;

 private:
  plan::Graph first_, second_;
  std::pair<int64_t, int64_t> batches_;
};

}  // namespace retrace::doctor
