#include "report/saved.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "plan/simulate/rebuilding.h"
#include "report/flops.h"

namespace retrace::report {

using plan::at;
using plan::EventKind;
using plan::kNone;
using plan::ValueId;

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<SavedValue> list_saved(const plan::Graph& graph, const StepTimes& times) {
  std::vector<SavedValue> all(graph.values.size());
  for (size_t e = 0; e < graph.events.size(); ++e) {
    const plan::Event& event = graph.events[e];
    const double end = times.begin(e) + times.duration(e);
    if (event.kind == EventKind::op) {
      for_each_output(graph.ops[at(event.id)], [&](ValueId v) { all[at(v)].made_seconds = end; });
      continue;
    }
    if (event.kind == EventKind::release || event.kind == EventKind::end) continue;
    const ValueId v = graph.handles[at(event.id)];
    SavedValue& saved = all[at(v)];
    if (event.kind == EventKind::save) {
      saved.value = v;
      ++saved.times;
    } else if (saved.taken_seconds == 0) {
      saved.taken_seconds = times.begin(e);
    }
  }
  for (SavedValue& saved : all) {
    if (saved.value == kNone) continue;
    const plan::Value& value = graph.values[at(saved.value)];
    saved.op = value.producer;
    saved.bytes = value.external ? 0 : value.bytes;
    if (saved.taken_seconds == 0) saved.taken_seconds = times.end();
  }
  std::erase_if(all, [](const SavedValue& saved) { return saved.value == kNone; });
  return all;
}

void add_flops(Rebuild& total, const std::optional<double>& flops) {
  total.flops += flops.value_or(0);
  total.uncounted += flops ? 0 : 1;
}

}  // namespace

SavedTape::SavedTape(const plan::Graph& graph, const StepTimes& times)
    : graph_(graph), values_(list_saved(graph, times)), saved_(graph.values.size()), visited_(graph.ops.size()) {
  for (const SavedValue& saved : values_) {
    saved_[at(saved.value)] = 1;
    bytes_ += saved.bytes;
    outside_ += graph.values[at(saved.value)].external ? 1 : 0;
  }
  std::stable_sort(values_.begin(), values_.end(),
                   [](const SavedValue& a, const SavedValue& b) { return a.made_seconds < b.made_seconds; });
  for (const plan::Op& op : graph.ops) {
    flops_.push_back(flops_of(graph, op));
    forward_.seconds += op.seconds;
    ++forward_.ops;
    add_flops(forward_, flops_.back());
  }
}

Rebuild SavedTape::rebuild(const std::vector<ValueId>& forgotten) const {
  std::vector<char> gone(graph_.values.size());
  for (const ValueId v : forgotten) gone[at(v)] = 1;
  const auto there = [&](ValueId v) {
    return graph_.values[at(v)].producer == kNone || (saved_[at(v)] != 0 && gone[at(v)] == 0);
  };
  // Batch norm: its output is cheap while its statistics are there.
  const auto seconds_of = [&](const plan::Op& op) {
    const bool shortcut = op.shortcut_seconds > 0 && rebuilding::others_are_there(op.fresh, there);
    return shortcut ? op.shortcut_seconds : op.seconds;
  };
  Rebuild total;
  ++visit_;
  std::vector<ValueId> stack = forgotten;
  while (!stack.empty()) {
    const ValueId v = stack.back();
    stack.pop_back();
    const plan::OpId producer = graph_.values[at(v)].producer;
    if (there(v) || visited_[at(producer)] == visit_) continue;
    visited_[at(producer)] = visit_;
    const plan::Op& op = graph_.ops[at(producer)];
    total.seconds += seconds_of(op);
    ++total.ops;
    add_flops(total, flops_[at(producer)]);
    for_each_read(op, [&](ValueId read) { stack.push_back(read); });
  }
  return total;
}

template <class NameOf>
std::vector<SavedGroup> SavedTape::grouped(NameOf name_of) const {
  std::vector<SavedGroup> groups;
  std::map<std::string, size_t> positions;
  const auto group_of = [&](const plan::Op& op) -> SavedGroup& {
    const auto [found, is_new] = positions.try_emplace(name_of(op), groups.size());
    if (is_new) groups.push_back({.name = found->first});
    return groups[found->second];
  };
  for (const plan::Op& op : graph_.ops) ++group_of(op).ops;
  for (const SavedValue& saved : values_) {
    if (saved.op == kNone) continue;
    SavedGroup& group = group_of(graph_.ops[at(saved.op)]);
    ++group.values;
    group.bytes += saved.bytes;
    group.longest_wait_seconds = std::max(group.longest_wait_seconds, saved.wait_seconds());
    group.members.push_back(saved.value);
  }
  for (SavedGroup& group : groups) group.rebuild = rebuild(group.members);
  return groups;
}

std::vector<SavedGroup> SavedTape::by_layer() const { return grouped(layer_of); }

std::vector<SavedGroup> SavedTape::by_operator() const {
  auto groups = grouped([](const plan::Op& op) { return op.name; });
  std::erase_if(groups, [](const SavedGroup& g) { return g.bytes == 0; });
  const auto price = [](const SavedGroup& g) { return g.rebuild.seconds / static_cast<double>(g.bytes); };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const SavedGroup& a, const SavedGroup& b) { return price(a) < price(b); });
  return groups;
}

std::string layer_of(const plan::Op& op) {
  if (op.module.empty()) return "(no layer)";
  size_t end = op.module.find('.');
  while (end != std::string::npos) {
    const size_t next = op.module.find('.', end + 1);
    const size_t stop = next == std::string::npos ? op.module.size() : next;
    if (!is_number(std::string_view(op.module).substr(end + 1, stop - end - 1))) break;
    end = next;
  }
  return op.module.substr(0, end);
}

bool recomputes_inside(const std::string& op_name) {
  constexpr std::string_view kFused[] = {
      "aten::_scaled_dot_product_flash_attention",
      "aten::_scaled_dot_product_flash_attention_for_cpu",
      "aten::_scaled_dot_product_efficient_attention",
      "aten::_scaled_dot_product_cudnn_attention",
      "aten::_scaled_dot_product_fused_attention_overrideable",
      "aten::_flash_attention_forward",
      "aten::_efficient_attention_forward",
  };
  return std::find(std::begin(kFused), std::end(kFused), op_name) != std::end(kFused);
}

}  // namespace retrace::report
