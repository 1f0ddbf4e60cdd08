#include "doctor/block.h"

#include <algorithm>
#include <map>
#include <set>

#include <retrace/errors.h>

namespace retrace::doctor {
namespace {

// Marks the tensors that must be made for `name`, back to what is kept.
void need(const Table& table, const std::string& name, const std::set<std::string>& kept, std::set<std::string>& made) {
  const Tensor& tensor = find(table, name);
  const std::string& maker = tensor.with.empty() ? tensor.name : tensor.with;
  if (kept.contains(name) || kept.contains(maker) || tensor.made_by.empty() || !made.insert(maker).second) return;
  for (const std::string& from : find(table, maker).from) need(table, from, kept, made);
}

bool saves(const std::string& savers, const std::string& maker) {
  return !maker.empty() && (", " + savers + ", ").find(", " + maker + ", ") != std::string::npos;
}

// The operator whose backward is the last to need a saved tensor: the first of its readers that saved it, or its maker.
const Tensor* last_to_need(const Table& table, const Tensor& saved) {
  const std::string& maker = saved.with.empty() ? saved.name : saved.with;
  if (saves(saved.saved_by, saved.made_by)) return &find(table, maker);
  for (const Tensor& reader : table) {
    const bool reads = std::find(reader.from.begin(), reader.from.end(), maker) != reader.from.end();
    if (reads && saves(saved.saved_by, reader.made_by)) return &reader;
  }
  return nullptr;
}

int64_t let_go_by(const Table& table, const Tensor& op) {
  int64_t bytes = 0;
  for (const Tensor& tensor : table) {
    if (!tensor.saved_by.empty() && last_to_need(table, tensor) == &op) bytes = plus(bytes, tensor.bytes);
  }
  return bytes;
}

// Gradients that an operator's backward makes, of what it read. An addition hands its own on.
int64_t take_gradients(const Table& table, const Tensor& op, std::map<std::string, int64_t>& gradients) {
  int64_t bytes = 0;
  const bool hands_on = op.made_by == "add";
  for (size_t i = 0; i < op.from.size(); ++i) {
    const bool new_here = !gradients.contains(op.from[i]);
    if (!new_here) continue;  // added to what is there
    gradients[op.from[i]] = hands_on ? (i == 0 ? gradients[op.name] : 0) : find(table, op.from[i]).bytes;
    if (!hands_on) bytes = plus(bytes, gradients[op.from[i]]);
  }
  if (hands_on) gradients[op.name] = 0;
  return bytes;
}

}  // namespace

const char* name(Layer layer) {
  switch (layer) {
    case Layer::norm:
      return "norms";
    case Layer::attention:
      return "attention";
    case Layer::mlp:
      return "MLP";
    case Layer::dropout:
      return "dropout";
    case Layer::embedding:
      return "embedding";
    case Layer::head:
      return "logits and loss";
  }
  return "";
}

const Tensor& find(const Table& table, const std::string& name) {
  for (const Tensor& tensor : table) {
    if (tensor.name == name) return tensor;
  }
  throw InternalError("[doctor] no tensor of the table is called '" + name + "'.");
}

int64_t saved_bytes(const Table& table) {
  int64_t bytes = 0;
  for (const Tensor& tensor : table) bytes = tensor.saved_by.empty() ? bytes : plus(bytes, tensor.bytes);
  return bytes;
}

int64_t backward_rise_bytes(const Table& table) {
  std::map<std::string, int64_t> gradients{{table.back().name, table.back().bytes}};
  int64_t live = table.back().bytes, most = live;  // gradients, less what has been let go of
  for (size_t i = table.size(); i-- > 0;) {
    const Tensor& tensor = table[i];
    if (tensor.made_by.empty() || !tensor.with.empty()) continue;
    live += take_gradients(table, tensor, gradients);
    most = std::max(most, live);
    live -= gradients[tensor.name];
    gradients.erase(tensor.name);
    live -= let_go_by(table, tensor);
  }
  return std::max<int64_t>(most, 0);
}

double forward_work(const Table& table) {
  double work = 0;
  for (const Tensor& tensor : table) work += tensor.work;
  return work;
}

double backward_work(const Table& table) {
  double work = 0;
  for (const Tensor& tensor : table) work += tensor.backward * tensor.work;
  return work;
}

Rebuild rebuild(const Table& table, const std::vector<std::string>& kept_names, const std::string& also) {
  const std::set<std::string> kept(kept_names.begin(), kept_names.end());
  std::set<std::string> made;
  Rebuild result;
  for (const Tensor& tensor : table) {
    const std::string& maker = tensor.with.empty() ? tensor.name : tensor.with;
    if (tensor.saved_by.empty() || kept.contains(maker) || kept.contains(tensor.name)) continue;
    result.bytes = plus(result.bytes, tensor.bytes);
    need(table, tensor.name, kept, made);
  }
  if (!also.empty()) need(table, also, kept, made);
  for (const Tensor& tensor : table) {
    if (!made.contains(tensor.name)) continue;
    result.work += tensor.work;
    result.made.push_back(tensor.name);
  }
  return result;
}

}  // namespace retrace::doctor
