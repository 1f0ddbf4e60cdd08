#include "report/rows.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "report/saved.h"

namespace retrace::report {
namespace {

using plan::at;
using plan::kNone;

std::string short_type(const std::string& type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShort{{{"float32", "f32"},
                                                                                 {"float64", "f64"},
                                                                                 {"float16", "f16"},
                                                                                 {"bfloat16", "bf16"},
                                                                                 {"int64", "i64"},
                                                                                 {"int32", "i32"},
                                                                                 {"int16", "i16"},
                                                                                 {"int8", "i8"},
                                                                                 {"uint8", "u8"}}};
  for (const auto& [name, brief] : kShort) {
    if (type == name) return std::string(brief);
  }
  return type;
}

std::string shape_of(const plan::Op& op) {
  for (const plan::Output& output : op.outputs) {
    if (output.dtype.empty()) continue;
    std::string text = short_type(output.dtype) + "[";
    for (size_t i = 0; i < output.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(output.shape[i]);
    return text + "]";
  }
  return "";
}

// Of each storage, the last content that autograd saved: those before it were overwritten, and take no bytes of their
// own.
std::vector<plan::ValueId> last_saved(const plan::Graph& graph) {
  std::vector<plan::ValueId> last(plan::storage_count(graph), kNone), saved;
  for (const plan::Event& event : graph.events) {
    if (event.kind != plan::EventKind::save) continue;
    const plan::ValueId v = graph.handles[at(event.id)];
    if (graph.values[at(v)].storage != kNone) last[at(graph.values[at(v)].storage)] = v;
  }
  std::copy_if(last.begin(), last.end(), std::back_inserter(saved), [](plan::ValueId v) { return v != kNone; });
  return saved;
}

}  // namespace

std::vector<plan::OpId> makers(const plan::Graph& graph) {
  std::vector<plan::OpId> maker(graph.values.size(), kNone);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for_each_output(graph.ops[o], [&](plan::ValueId v) { maker[at(v)] = static_cast<plan::OpId>(o); });
  }
  return maker;
}

const std::string& module_of(const plan::Graph& graph, const std::vector<plan::OpId>& makers, plan::ValueId value) {
  return makers[at(value)] != kNone ? graph.ops[at(makers[at(value)])].module : graph.values[at(value)].name;
}

std::vector<Row> rows(const plan::Graph& graph, const StepTimes& times) {
  const std::vector<plan::OpId> maker = makers(graph);
  std::vector<Row> rows(graph.ops.size());
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    rows[o].shape = shape_of(graph.ops[o]);
    for (const plan::ValueId v : graph.ops[o].fresh) rows[o].bytes += graph.values[at(v)].bytes;
  }
  std::map<plan::OpId, std::vector<plan::ValueId>> to_rebuild;
  for (const plan::ValueId v : last_saved(graph)) {
    if (maker[at(v)] == kNone) continue;
    rows[at(maker[at(v)])].saved_bytes += graph.values[at(v)].bytes;
    if (graph.values[at(v)].producer != kNone) to_rebuild[maker[at(v)]].push_back(v);
  }
  const SavedTape saved(graph, times);
  for (const auto& [op, values] : to_rebuild) rows[at(op)].rebuild_seconds = saved.rebuild(values).seconds;
  std::vector<double> ran(graph.ops.size());
  for (size_t e = 0; e < graph.events.size(); ++e) {
    const plan::Event& event = graph.events[e];
    if (event.kind == plan::EventKind::op) ran[at(event.id)] = times.begin(e + 1);
    if (event.kind != plan::EventKind::unpack) continue;
    const plan::OpId op = maker[at(graph.handles[at(event.id)])];
    if (op != kNone && rows[at(op)].wait_seconds < 0) rows[at(op)].wait_seconds = times.begin(e) - ran[at(op)];
  }
  return rows;
}

}  // namespace retrace::report
