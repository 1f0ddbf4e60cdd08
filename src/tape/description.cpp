#include "tape/description.h"

#include <algorithm>

#include "tape/geometry.h"

namespace retrace {
namespace {

std::string clipped(std::string text, size_t most_bytes) {
  if (text.size() > most_bytes) text.resize(most_bytes);
  return text;
}

// As the field writes them; LibTorch's own names ("Float", "Long") are those of C++.
std::string name_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    case at::kBool:
      return "bool";
    case at::ScalarType::Undefined:
      return "";
    default:
      return clipped(c10::toString(type), plan::kLongestType);
  }
}

}  // namespace

void Description::add_value(plan::ValueId value, const c10::StorageImpl* storage) {
  if (!names_) return;
  const size_t at = plan::at(value);
  if (at >= weights_.size()) {
    weights_.resize(at + 1);
    places_.resize(at + 1);
  }
  weights_[at] = names_->find(storage);
}

void Description::add_op(const plan::Op& op, at::TensorList results) {
  for (const at::Tensor& t : results) {
    const bool defined = t.defined();
    outputs_.push_back(
        {sizes_.size(), defined ? t.scalar_type() : at::ScalarType::Undefined, defined ? t.device() : at::kCPU});
    if (defined && understood(t)) sizes_.insert(sizes_.end(), t.sizes().begin(), t.sizes().end());
  }
  outputs_end_.push_back(outputs_.size());
  if (names_) add_module(op);
}

// That of the first weight it reads; of none, that of the latest op that made what it reads.
void Description::add_module(const plan::Op& op) {
  Place place;
  for (const plan::Arg& arg : op.args) {
    if (const NameTable::Entry* const read = weight(arg.value)) {
      place.module = read->module;
      break;
    }
    const Place& before = places_[plan::at(arg.value)];
    if (before.op > place.op) place = before;
  }
  place.op = static_cast<plan::OpId>(modules_.size());
  modules_.push_back(place.module);
  if (place.module == plan::kNone) return;
  for (const plan::ValueId made : op.fresh) places_[plan::at(made)] = place;
  for (const plan::Arg& arg : op.args) {
    if (arg.becomes != plan::kNone) places_[plan::at(arg.becomes)] = place;
  }
}

void Description::add_backward(std::shared_ptr<const BackwardOps> ops, int32_t events_before) {
  backwards_.emplace_back(std::move(ops), events_before);
}

void Description::add_to(plan::Graph& graph) const {
  for (size_t i = 0; i < std::min(graph.ops.size(), outputs_end_.size()); ++i) {
    graph.ops[i].outputs = outputs(i);
    if (names_ && modules_[i] != plan::kNone)
      graph.ops[i].module = clipped(names_->module(modules_[i]), plan::kLongestName);
  }
  if (names_) name_values(graph);
  place_backward(graph);
}

Description Description::first(size_t ops, size_t backwards, const std::vector<char>& known_values) const {
  Description begun = *this;
  begun.outputs_end_.resize(ops);
  const size_t outputs = ops == 0 ? 0 : outputs_end_[ops - 1];
  if (outputs < outputs_.size()) begun.sizes_.resize(outputs_[outputs].sizes_begin);
  begun.outputs_.erase(begun.outputs_.begin() + static_cast<std::ptrdiff_t>(outputs), begun.outputs_.end());
  begun.modules_.resize(names_ ? ops : 0);
  begun.backwards_.resize(std::min(backwards, backwards_.size()));
  for (size_t v = 0; v < begun.weights_.size(); ++v) {
    if (v < known_values.size() && known_values[v]) continue;
    begun.weights_[v] = nullptr;
    begun.places_[v] = {};
  }
  return begun;
}

void Description::name_values(plan::Graph& graph) const {
  for (size_t i = 0; i < std::min(graph.values.size(), weights_.size()); ++i) {
    const int32_t module = places_[i].module;
    if (!weights_[i] && module == plan::kNone) continue;
    graph.values[i].name = clipped(weights_[i] ? weights_[i]->path : names_->module(module), plan::kLongestName);
  }
}

std::vector<plan::Output> Description::outputs(size_t op) const {
  std::vector<plan::Output> all;
  for (size_t i = op == 0 ? 0 : outputs_end_[op - 1]; i < outputs_end_[op]; ++i) {
    const Output& output = outputs_[i];
    const size_t end = i + 1 < outputs_.size() ? outputs_[i + 1].sizes_begin : sizes_.size();
    plan::Output& described = all.emplace_back();
    described.dtype = name_of(output.dtype);
    if (described.dtype.empty()) continue;
    described.device = clipped(output.device.str(), plan::kLongestType);
    for (size_t s = output.sizes_begin; s < end; ++s) described.shape.push_back(sizes_[s]);
  }
  return all;
}

void Description::place_backward(plan::Graph& graph) const {
  std::vector<int32_t> events{plan::kNone};  // after so many that are no releases
  for (size_t e = 0; e < graph.events.size(); ++e) {
    if (graph.events[e].kind != plan::EventKind::release) events.push_back(static_cast<int32_t>(e));
  }
  for (const auto& [ops, events_before] : backwards_) {
    for (const BackwardOp& op : *ops) {
      const size_t after = std::min(plan::at(events_before + op.after), events.size() - 1);
      graph.backward_ops.push_back({clipped(op.name, plan::kLongestName), op.seconds, events[after]});
    }
  }
}

}  // namespace retrace
