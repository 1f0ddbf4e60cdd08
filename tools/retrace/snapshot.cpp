#include "snapshot.h"

#include <cstring>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

namespace retrace::cli {

void Snapshot::add(std::string label, const at::Tensor& tensor) {
  Entry entry{std::move(label), tensor.defined(), {}};
  if (entry.defined) {
    const at::Tensor flat = tensor.detach().contiguous();
    const char* const data = static_cast<const char*>(flat.data_ptr());
    entry.bytes.assign(data, data + flat.nbytes());
  }
  entries_.push_back(std::move(entry));
}

std::string Snapshot::first_difference(const Snapshot& other) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i >= other.entries_.size() || entries_[i] != other.entries_[i]) return entries_[i].label;
  }
  return "";
}

void Snapshot::restore(const std::vector<at::Tensor>& tensors) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!entries_[i].bytes.empty())
      std::memcpy(tensors[i].data_ptr(), entries_[i].bytes.data(), entries_[i].bytes.size());
  }
}

Snapshot snapshot_of_step(const models::Model& model, const StepResult& result) {
  Snapshot snapshot;
  snapshot.add("the loss", result.loss);
  snapshot.add("the gradient of the input", result.input_gradient);
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    snapshot.add("the gradient of " + model.parameter_names[i], model.parameters[i].grad());
  }
  for (size_t i = 0; i < model.buffers.size(); ++i) snapshot.add("buffer " + std::to_string(i), model.buffers[i]);
  snapshot.add("the generator's state", at::detail::getDefaultCPUGenerator().get_state());
  return snapshot;
}

Snapshot snapshot_of_buffers(const models::Model& model) {
  Snapshot snapshot;
  for (const at::Tensor& buffer : model.buffers) snapshot.add("", buffer);
  return snapshot;
}

}  // namespace retrace::cli
