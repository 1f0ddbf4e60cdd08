// What a step left behind, to the last bit, so that two runs can be compared.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "models/models.h"
#include "runner.h"

namespace retrace::cli {

// Bytes live outside LibTorch's allocator: a snapshot does not count in anybody's peak.
class Snapshot {
 public:
  void add(std::string label, const at::Tensor& tensor);  // an undefined tensor equals only another undefined one

  // The label of the first entry that differs, or "" if all are equal, bit for bit.
  std::string first_difference(const Snapshot& other) const;

  // Writes the bytes back into the tensors they were taken from, in order. For contiguous tensors no graph refers to.
  void restore(const std::vector<at::Tensor>& tensors) const;

 private:
  struct Entry {
    std::string label;
    bool defined = false;
    std::vector<char> bytes;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries_;
};

// Loss, every gradient, every buffer, and the state the random generator was left in.
Snapshot snapshot_of_step(const models::Model& model, const StepResult& result);

Snapshot snapshot_of_buffers(const models::Model& model);

}  // namespace retrace::cli
