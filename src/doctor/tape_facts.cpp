#include "doctor/tape_facts.h"

#include <algorithm>
#include <map>
#include <set>

#include "doctor/formula.h"

namespace retrace::doctor {
namespace {

using plan::at;

// Layers of one kind: "blocks.3.mlp" and "block3.mlp" become "blocks.*.mlp" and "block*.mlp". The first number counts
// the layers; further ones ("fc1") are names.
std::string kind_of(const std::string& module) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto begin = std::find_if(module.begin(), module.end(), is_digit);
  if (begin == module.end()) return module;
  const auto end = std::find_if_not(begin, module.end(), is_digit);
  return std::string(module.begin(), begin) + "*" + std::string(end, module.end());
}

// The handles that autograd holds when backward begins to ask.
std::set<plan::ValueId> saved_at_turn(const plan::Graph& graph) {
  std::map<plan::ValueId, int> holders;
  for (const plan::Event& event : graph.events) {
    if (event.kind == plan::EventKind::unpack) break;
    if (event.kind == plan::EventKind::save) ++holders[graph.handles[at(event.id)]];
    if (event.kind == plan::EventKind::drop) --holders[graph.handles[at(event.id)]];
  }
  std::set<plan::ValueId> values;
  for (const auto& [value, count] : holders) {
    if (count > 0 && value != plan::kNone && !graph.values[at(value)].external) values.insert(value);
  }
  return values;
}

std::string group_of(const plan::Graph& graph, const plan::Value& value) {
  if (value.producer == plan::kNone) return "not made by an operator";
  const plan::Op& op = graph.ops[at(value.producer)];
  return op.module.empty() ? op.name : kind_of(op.module);
}

}  // namespace

TapeFacts facts_of(const plan::Graph& graph) {
  TapeFacts facts;
  facts.weights = graph.weight_bytes;
  facts.before = graph.start_bytes - graph.weight_bytes;
  for (const plan::Event& event : graph.events) facts.gradients = std::max(facts.gradients, event.gradient_bytes);
  std::map<std::string, KeptGroup> groups;
  for (const plan::ValueId id : saved_at_turn(graph)) {
    const plan::Value& value = graph.values[at(id)];
    facts.activations = plus(facts.activations, value.bytes);
    KeptGroup& group = groups[group_of(graph, value)];
    group.bytes += value.bytes;
    ++group.tensors;
  }
  for (auto& [name, group] : groups) facts.kept.push_back({name, group.bytes, group.tensors});
  std::stable_sort(facts.kept.begin(), facts.kept.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return facts;
}

}  // namespace retrace::doctor
