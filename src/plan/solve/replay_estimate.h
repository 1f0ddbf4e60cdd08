// What would be run again under a set of choices, counting every operator once; and by how much that changes when one
// value becomes a source or ceases to be one. An estimate for a search that looks for a move: the simulator judges it.
#pragma once

#include <vector>

#include "plan/graph/graph.h"
#include "plan/graph/lifetimes.h"

namespace retrace::plan {

class ReplayEstimate {
 public:
  ReplayEstimate(const Graph& graph, const Lifetimes& lifetimes);

  void reset(const Choices& choices);

  bool needed(ValueId v) const { return value_need_[at(v)] > 0; }
  bool source(ValueId v) const { return source_[at(v)] != 0; }

  void add_source(ValueId v);     // it is kept from now on
  void remove_source(ValueId v);  // it is no longer

  double gain(ValueId v);  // seconds saved by add_source
  double loss(ValueId v);  // seconds added by remove_source

 private:
  void change(ValueId v, int32_t by);
  void change_op(OpId o, int32_t by);
  void run();

  const Graph& graph_;
  const Lifetimes& lifetimes_;
  std::vector<int32_t> value_need_, op_need_;
  std::vector<char> source_;
  std::vector<std::pair<ValueId, int32_t>> work_;
  double seconds_ = 0;
};

}  // namespace retrace::plan
