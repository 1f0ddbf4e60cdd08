#include "synthetic/step.h"

#include <algorithm>

namespace retrace::plan {

SyntheticStep::SyntheticStep() { graph_.start_bytes = 0; }

ValueId SyntheticStep::make(OpId producer, int64_t bytes, int32_t storage) {
  Value v;
  v.bytes = bytes;
  v.storage = storage;
  v.producer = producer;
  graph_.values.push_back(v);
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId SyntheticStep::input(int64_t bytes) {
  const ValueId v = make(kNone, bytes, storages_++);
  graph_.values.back().external = true;
  graph_.start_bytes += bytes;
  return v;
}

ValueId SyntheticStep::run(const std::string& name, double seconds, const std::vector<ValueId>& reads,
                           const std::vector<int64_t>& fresh_bytes, int64_t scratch_bytes) {
  Op op;
  op.name = name;
  op.seconds = seconds;
  op.working_bytes = scratch_bytes;
  for (const ValueId v : reads) op.args.push_back({v, kNone, false});
  const auto id = static_cast<OpId>(graph_.ops.size());
  for (const int64_t bytes : fresh_bytes) {
    op.fresh.push_back(make(id, bytes, storages_++));
    op.working_bytes += bytes;
  }
  const ValueId first = op.fresh.empty() ? kNone : op.fresh.front();
  graph_.seconds += seconds;
  graph_.ops.push_back(std::move(op));
  event(EventKind::op, id);
  return first;
}

ValueId SyntheticStep::run_shape_only(const std::string& name, double seconds, ValueId like, int64_t bytes) {
  const ValueId v = run(name, seconds, {like}, {bytes});
  graph_.ops.back().args.front().shape_only = true;
  return v;
}

ValueId SyntheticStep::run_in_place(const std::string& name, double seconds, ValueId target,
                                    const std::vector<ValueId>& reads) {
  run(name, seconds, reads, {});
  const Value& before = graph_.values[at(target)];
  const ValueId after = make(static_cast<OpId>(graph_.ops.size()) - 1, before.bytes, before.storage);
  auto& args = graph_.ops.back().args;
  args.push_back({target, after, false});
  std::rotate(args.begin(), args.end() - 1, args.end());
  return after;
}

void SyntheticStep::release(ValueId v) { event(EventKind::release, v); }

void SyntheticStep::node(const std::vector<ValueId>& saved, double seconds, int64_t result_bytes,
                         int64_t gradient_bytes, int64_t weight_bytes) {
  Node node{{}, result_bytes, gradient_bytes, weight_bytes};
  for (const ValueId v : saved) {
    node.handles.push_back(static_cast<HandleId>(graph_.handles.size()));
    graph_.handles.push_back(v);
    event(EventKind::save, node.handles.back());
  }
  graph_.seconds += seconds;
  graph_.start_bytes += weight_bytes;
  graph_.weight_bytes += weight_bytes;
  nodes_.push_back(std::move(node));
}

void SyntheticStep::event(EventKind kind, int32_t id) { graph_.events.push_back({kind, id, 0, 0, 0}); }

Graph SyntheticStep::finish() {
  for (const ValueId v : at_end_) release(v);
  for (Event& e : graph_.events) e.other_bytes = e.other_peak = graph_.start_bytes;
  int64_t weights_done = 0;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const int64_t before = graph_.start_bytes + weights_done + node->result_bytes;
    const int64_t during = before + node->gradient_bytes + node->weight_bytes;
    weights_done += node->weight_bytes;
    for (size_t i = 0; i < node->handles.size(); ++i) {
      const bool last = i + 1 == node->handles.size();
      graph_.events.push_back(
          {EventKind::unpack, node->handles[i], before, last ? during : before, weights_done - node->weight_bytes});
    }
    for (const HandleId h : node->handles) {
      const int64_t after = graph_.start_bytes + weights_done + node->gradient_bytes;
      graph_.events.push_back({EventKind::drop, h, after, after, weights_done});
    }
  }
  const int64_t end = graph_.start_bytes + weights_done;
  graph_.events.push_back({EventKind::end, 0, end, end, weights_done});
  uint64_t hash = 1;
  for (const Op& op : graph_.ops) {
    for (const char c : op.name) hash = mixed(hash, static_cast<uint64_t>(c));
    for (const Arg& arg : op.args) hash = mixed(hash, static_cast<uint64_t>(arg.value));
  }
  for (const Value& v : graph_.values) hash = mixed(hash, static_cast<uint64_t>(v.bytes));
  graph_.signature = hash;
  return std::move(graph_);
}

}  // namespace retrace::plan
