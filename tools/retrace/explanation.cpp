#include "explanation.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace retrace::cli {

using plan::at;
using plan::EventKind;

namespace {

std::string operator_and_layer(const plan::Op& op) { return op.name + (op.module.empty() ? "" : " of " + op.module); }

nlohmann::ordered_json to_json(const plan::Owners& owners) {
  return {{"weights", owners.weights},
          {"gradients", owners.gradients},
          {"kept", owners.kept},
          {"rebuilt", owners.rebuilt},
          {"other", owners.other}};
}

nlohmann::ordered_json to_json(const report::SavedGroup& group) {
  return {{"name", group.name},
          {"operators", group.ops},
          {"saved_values", group.values},
          {"saved_bytes", group.bytes},
          {"longest_wait_seconds", group.longest_wait_seconds},
          {"rebuild_operators", group.rebuild.ops},
          {"rebuild_seconds", group.rebuild.seconds},
          {"rebuild_flops", group.rebuild.flops},
          {"rebuild_uncounted_products", group.rebuild.uncounted},
          {"recomputes_inside", report::recomputes_inside(group.name)}};
}

nlohmann::ordered_json groups_json(const std::vector<report::SavedGroup>& groups) {
  auto rows = nlohmann::ordered_json::array();
  for (const report::SavedGroup& group : groups) rows.push_back(to_json(group));
  return rows;
}

nlohmann::ordered_json policy_json(const report::PolicyFigures& figures, double plain_seconds) {
  nlohmann::ordered_json row{{"policy", figures.policy}, {"fits", figures.fits}};
  if (figures.budget_bytes) row["budget_bytes"] = *figures.budget_bytes;
  if (!figures.fits) {
    row["smallest_bytes"] = figures.smallest_bytes;
    return row;
  }
  row["peak_bytes"] = figures.peak_bytes;
  row["at_peak"] = to_json(figures.at_peak);
  row["average_bytes"] = figures.average_bytes;
  row["seconds"] = figures.step_seconds;
  row["extra_seconds"] = figures.extra_seconds;
  row["ratio"] = figures.ratio(plain_seconds);
  row["operators_again"] = figures.ops_again;
  row["again"] = nlohmann::ordered_json::object();
  for (const auto& [name, again] : figures.again)
    row["again"][name] = {{"times", again.times}, {"seconds", again.seconds}};
  return row;
}

nlohmann::ordered_json values_json(const Explanation& explanation) {
  auto rows = nlohmann::ordered_json::array();
  for (const report::SavedValue& saved : explanation.saved.values()) {
    const plan::Value& value = explanation.graph.values[at(saved.value)];
    const plan::Op* const op = saved.op == plan::kNone ? nullptr : &explanation.graph.ops[at(saved.op)];
    const report::Rebuild rebuild = op != nullptr ? explanation.saved.rebuild({saved.value}) : report::Rebuild{};
    rows.push_back({{"value", saved.value},
                    {"operator", op != nullptr ? op->name : ""},
                    {"module", op != nullptr ? op->module : value.name},
                    {"looks", look_of(explanation.graph, saved.value)},
                    {"bytes", saved.bytes},
                    {"times_saved", saved.times},
                    {"made_seconds", saved.made_seconds},
                    {"taken_seconds", saved.taken_seconds},
                    {"wait_seconds", saved.wait_seconds()},
                    {"can_be_rebuilt", op != nullptr},
                    {"rebuild_operators", rebuild.ops},
                    {"rebuild_seconds", rebuild.seconds}});
  }
  return rows;
}

}  // namespace

Explanation::Explanation(std::string path, const plan::Graph& g)
    : tape(std::move(path)), graph(g), times(g), saved(g, times), full(report::figures_of(g, keep_all())) {
  full.policy = "full";
}

std::string place_of(const plan::Graph& graph, size_t event) {
  if (event >= graph.events.size()) return "nowhere";
  const plan::Event& e = graph.events[event];
  const bool forward = event < plan::first_unpack(graph);
  const std::string where = forward ? "forward, " : "backward, ";
  if (e.kind == EventKind::end) return where + "at the end";
  if (e.kind == EventKind::op) return where + "in " + operator_and_layer(graph.ops[at(e.id)]);
  const plan::ValueId v = e.kind == EventKind::release ? e.id : graph.handles[at(e.id)];
  const plan::Value& value = graph.values[at(v)];
  const std::string of = value.producer != plan::kNone
                             ? "the result of " + operator_and_layer(graph.ops[at(value.producer)])
                         : value.name.empty() ? "an input"
                                              : value.name;
  return where + (forward ? "after " : "at ") + of;
}

std::string look_of(const plan::Graph& graph, plan::ValueId id) {
  const plan::OpId producer = graph.values[at(id)].producer;
  if (producer == plan::kNone) return "";
  const plan::Op& op = graph.ops[at(producer)];
  // Results in the operator's own order: those written in place come first, as the operator returns them.
  size_t position = 0;
  const auto fresh = std::find(op.fresh.begin(), op.fresh.end(), id);
  if (fresh != op.fresh.end()) position = static_cast<size_t>(fresh - op.fresh.begin());
  if (position >= op.outputs.size() || op.outputs[position].dtype.empty()) return "";
  std::string text;
  for (const int64_t size : op.outputs[position].shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return (text.empty() ? "scalar" : text) + " " + op.outputs[position].dtype;
}

nlohmann::ordered_json json_of(const Explanation& explanation, bool ops) {
  const auto& [tape, graph, times, saved, full, policies] = explanation;
  nlohmann::ordered_json all{{"tape", tape},
                             {"operators", graph.ops.size()},
                             {"backward_operators", graph.backward_ops.size()},
                             {"seconds", graph.seconds},
                             {"forward_flops", saved.forward().flops},
                             {"forward_uncounted_products", saved.forward().uncounted},
                             {"peak_bytes", full.peak_bytes},
                             {"peak_at", place_of(graph, full.peak_event)},
                             {"at_peak", to_json(full.at_peak)},
                             {"average_bytes", full.average_bytes},
                             {"saved_bytes", saved.bytes()},
                             {"saved_values", saved.values().size() - static_cast<size_t>(saved.outside())},
                             {"saved_from_outside", saved.outside()},
                             {"layers", groups_json(saved.by_layer())},
                             {"operator_kinds", groups_json(saved.by_operator())}};
  all["policies"] = nlohmann::ordered_json::array();
  for (const report::PolicyFigures& figures : policies) all["policies"].push_back(policy_json(figures, graph.seconds));
  if (ops) all["saved"] = values_json(explanation);
  return all;
}

}  // namespace retrace::cli
