// Graphs for these tests: the one of docs/tape-format.md, and random ones that check() accepts.
#pragma once

#include <random>

#include "plan/graph/graph.h"

namespace retrace::plan::file_test {

inline Value value(int64_t bytes, int32_t storage, OpId producer, bool external = false, std::vector<Way> ways = {}) {
  return {bytes, storage, producer, external, std::move(ways), {}};
}

// y = x.sin(), of four floats; sin saves x.
inline Graph example() {
  Graph g;
  g.signature = 0x1122334455667788;
  g.seconds = 0.5;
  g.start_bytes = 300;
  g.weight_bytes = 200;
  g.values = {value(16, 0, kNone, true), value(16, 1, 0, false, {{"bits", 2, 0.25, 0.125, false}})};
  g.values[0].name = "x";
  g.ops = {{.name = "aten::sin",
            .seconds = 0.0625,
            .shortcut_seconds = 0.03125,
            .working_bytes = 16,
            .args = {{.value = 0}},
            .fresh = {1},
            .outputs = {{.shape = {2, 2}, .dtype = "float32", .device = "cpu"}},
            .module = "net",
            .read_bytes = {16}}};
  g.handles = {0};
  g.events = {{EventKind::save, 0, 300, 300, 0},
              {EventKind::op, 0, 300, 364, 0},
              {EventKind::unpack, 0, 316, 332, 16},
              {EventKind::drop, 0, 332, 332, 16},
              {EventKind::end, 0, 316, 316, 16}};
  g.backwards = {{.begin = 2, .end = 4, .records = false}};
  g.backward_ops = {{.name = "aten::cos", .seconds = 0.125, .after_event = 2}};
  return g;
}

// A step of `ops` operators: some in place, some results saved, unpacked in reverse, some with several ways to be held,
// some named.
inline Graph random_graph(uint32_t seed, int ops) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  Graph g;
  g.signature = random();
  g.start_bytes = below(1 << 30);
  g.weight_bytes = g.start_bytes / 2;
  g.values.push_back(value(64, 0, kNone, true));
  std::vector<ValueId> current{0};  // by storage
  const auto happens = [&](EventKind kind, int32_t id) {
    const int64_t other = g.start_bytes + below(1 << 20);
    g.events.push_back({kind, id, other, other + below(1000), below(1000)});
  };
  for (OpId id = 0; id < ops; ++id) {
    Op op;
    op.name = "aten::op" + std::to_string(below(7));
    op.seconds = 1e-3 * below(1000);
    op.working_bytes = below(1 << 20);
    const auto storage_count = static_cast<int>(current.size());
    for (int i = below(4); i > 0; --i)
      op.args.push_back({.value = current[static_cast<size_t>(below(storage_count))], .has_gradient = below(2) == 0});
    const auto made = static_cast<ValueId>(g.values.size());
    if (id > 0 && below(5) == 0) {
      const int32_t storage = 1 + below(storage_count - 1);
      op.args.push_back({.value = current[static_cast<size_t>(storage)], .becomes = made, .shape_only = below(2) == 0});
      current[static_cast<size_t>(storage)] = made;
      g.values.push_back(value(below(1 << 20), storage, id));
    } else {
      op.fresh.push_back(made);
      g.values.push_back(value(below(1 << 20), storage_count, id));
      current.push_back(made);
    }
    if (below(2) == 0)
      for (size_t i = 0; i < op.args.size(); ++i) op.read_bytes.push_back(below(1 << 20));
    g.values.back().has_gradient = below(3) != 0;
    if (!op.fresh.empty() && below(3) == 0) op.shortcut_seconds = op.seconds / 4;
    for (int i = below(3) * below(2); i > 0; --i)
      g.values.back().ways.push_back(
          {"way" + std::to_string(below(3)), g.values.back().bytes / 32 * below(3), 1e-6, 2e-6, below(2) == 0});
    if (below(4) == 0) g.values.back().name = "value" + std::to_string(below(100));
    if (below(4) == 0) op.module = "layer" + std::to_string(below(10));
    for (int i = below(3); i > 0; --i) op.outputs.push_back({{below(100), below(9)}, "float32", "cuda:1"});
    g.ops.push_back(std::move(op));
    happens(EventKind::op, id);
    if (below(2) == 0) {
      happens(EventKind::save, static_cast<int32_t>(g.handles.size()));
      g.handles.push_back(made);
    }
    if (below(8) == 0 && g.values.back().producer == id && !g.ops.back().fresh.empty())
      happens(EventKind::release, made);
  }
  const auto forward = static_cast<int32_t>(g.events.size());
  for (auto h = static_cast<int32_t>(g.handles.size()); h-- > 0;) {
    happens(EventKind::unpack, h);
    happens(EventKind::drop, h);
  }
  if (below(2) == 0) g.backwards.push_back({forward, static_cast<int32_t>(g.events.size()), below(2) == 0});
  happens(EventKind::end, 0);
  for (size_t e = 0; e < g.events.size(); ++e) {
    if (below(8) == 0) g.backward_ops.push_back({"aten::mm", 1e-3 * below(9), static_cast<int32_t>(e)});
  }
  return g;
}

}  // namespace retrace::plan::file_test
