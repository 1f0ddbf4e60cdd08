#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "group.h"

namespace distributed {

c10::intrusive_ptr<c10d::ProcessGroup> make_group(int rank, const std::string& file) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto store = c10::make_intrusive<c10d::FileStore>(file, kProcesses);
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, kProcesses);
  constexpr auto kGloo = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, kGloo,
                    c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, kProcesses, options));
  group->setDefaultBackend(kGloo);
  return group;
}

void all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  group->allreduce(tensors)->wait();
}

}  // namespace distributed
