// Writes a training step down as it would be recorded: operators as they run, then backward in reverse.
#pragma once

#include <string>
#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

class SyntheticStep {
 public:
  SyntheticStep();

  ValueId input(int64_t bytes);  // from outside

  // Runs an operator; returns its first fresh result, the others follow in id.
  ValueId run(const std::string& name, double seconds, const std::vector<ValueId>& reads,
              const std::vector<int64_t>& fresh_bytes, int64_t scratch_bytes = 0);
  ValueId run_shape_only(const std::string& name, double seconds, ValueId like, int64_t bytes);
  ValueId run_in_place(const std::string& name, double seconds, ValueId target, const std::vector<ValueId>& reads = {});

  int64_t bytes(ValueId v) const { return graph_.values[static_cast<size_t>(v)].bytes; }

  void release(ValueId v);  // the program lets go of it
  void release_later(ValueId v) { at_end_.push_back(v); }
  void shortcut(double seconds) { graph_.ops.back().shortcut_seconds = seconds; }  // of the last operator
  void way(ValueId v, Way way) { graph_.values[static_cast<size_t>(v)].ways.push_back(std::move(way)); }

  // A backward node, run in the reverse of the order they are declared in. It unpacks `saved`, takes a gradient as
  // large as its result, gives one of `gradient_bytes`, and leaves `weight_bytes` of weight gradients behind.
  void node(const std::vector<ValueId>& saved, double seconds, int64_t result_bytes, int64_t gradient_bytes,
            int64_t weight_bytes = 0);

  Graph finish();

 private:
  struct Node {
    std::vector<HandleId> handles;
    int64_t result_bytes, gradient_bytes, weight_bytes;
  };

  void event(EventKind kind, int32_t id);
  ValueId make(OpId producer, int64_t bytes, int32_t storage);

  Graph graph_;
  std::vector<Node> nodes_;
  std::vector<ValueId> at_end_;
  int32_t storages_ = 0;
};

}  // namespace retrace::plan
