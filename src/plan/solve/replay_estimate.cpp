#include "plan/solve/replay_estimate.h"

namespace retrace::plan {
ReplayEstimate::ReplayEstimate(const Graph& graph, const Lifetimes& lifetimes) : graph_(graph), lifetimes_(lifetimes) {}

void ReplayEstimate::reset(const Choices& choices) {
  value_need_.assign(graph_.values.size(), 0);
  op_need_.assign(graph_.ops.size(), 0);
  source_.assign(graph_.values.size(), 0);
  seconds_ = 0;
  for (size_t v = 0; v < choices.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    source_[v] = lifetimes_.free(id) || (choices[v].holds() && lifetimes_.keepable(id));
  }
  for (size_t v = 0; v < choices.size(); ++v) {
    if (lifetimes_.asked(static_cast<ValueId>(v))) change(static_cast<ValueId>(v), 1);
  }
}

void ReplayEstimate::change_op(OpId o, int32_t by) {
  int32_t& need = op_need_[at(o)];
  const bool was = need > 0;
  need += by;
  if (was == (need > 0)) return;
  const Op& op = graph_.ops[at(o)];
  seconds_ += by * least_seconds(op);
  for (const Arg& arg : op.args) {
    if (!arg.shape_only) work_.emplace_back(arg.value, by);
  }
}

void ReplayEstimate::run() {
  while (!work_.empty()) {
    const auto [v, by] = work_.back();
    work_.pop_back();
    int32_t& need = value_need_[at(v)];
    const bool was = need > 0;
    need += by;
    if (was != (need > 0) && source_[at(v)] == 0) change_op(graph_.values[at(v)].producer, by);
  }
}

void ReplayEstimate::change(ValueId v, int32_t by) {
  work_.emplace_back(v, by);
  run();
}

void ReplayEstimate::add_source(ValueId v) {
  if (source_[at(v)] != 0) return;
  source_[at(v)] = 1;
  if (value_need_[at(v)] == 0) return;
  change_op(graph_.values[at(v)].producer, -1);
  run();
}

void ReplayEstimate::remove_source(ValueId v) {
  if (source_[at(v)] == 0) return;
  source_[at(v)] = 0;
  if (value_need_[at(v)] == 0) return;
  change_op(graph_.values[at(v)].producer, 1);
  run();
}

double ReplayEstimate::gain(ValueId v) {
  if (source(v)) return 0;
  const double before = seconds_;
  add_source(v);
  const double saved = before - seconds_;
  remove_source(v);
  seconds_ = before;
  return saved;
}

double ReplayEstimate::loss(ValueId v) {
  if (!source(v)) return 0;
  const double before = seconds_;
  remove_source(v);
  const double added = seconds_ - before;
  add_source(v);
  seconds_ = before;
  return added;
}

}  // namespace retrace::plan
