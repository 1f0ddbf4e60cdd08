#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/Ops.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "group.h"

namespace distributed {

c10::intrusive_ptr<c10d::ProcessGroup> make_group(int rank, const std::string& file) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto store = c10::make_intrusive<c10d::FileStore>(file, kProcesses);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, kProcesses, options);
}

void all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  c10d::ops::allreduce(group, tensors)->wait();
}

}  // namespace distributed
