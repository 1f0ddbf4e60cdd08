// Two processes that add up tensors, over Gloo on the loopback. LibTorch 1 and 2 make process groups in different ways:
// one file for each, and CMake takes the one that compiles.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>

namespace distributed {

constexpr int kProcesses = 2;

// `file` is where they find each other: empty at first, the same for both.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(int rank, const std::string& file);

// Both end up with the sum, in place of what they had. Goes through the dispatcher, as LibTorch's own data parallel
// does.
void all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Tensor& tensor);

}  // namespace distributed
