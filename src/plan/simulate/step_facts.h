// What a simulation knows of a step before it begins: no choice changes it.
#pragma once

#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

class StepFacts {
 public:
  // Of the plain program, if `is_plain`: nothing can be rebuilt.
  StepFacts(const Graph& graph, bool is_plain);

  struct OpCost {
    double seconds = 0, shortcut_seconds = 0;
    int64_t working_bytes = 0;
  };
  struct WayCost {
    int64_t bytes = 0;
    double store_seconds = 0, load_seconds = 0;
  };

  int32_t storage(ValueId id) const { return graph.values[at(id)].storage; }
  size_t storages() const { return storages_; }
  OpId producer(ValueId id) const { return is_plain ? kNone : graph.values[at(id)].producer; }
  int64_t bytes(ValueId id) const { return way_cost(id, kAsItIs).bytes; }  // 0 for what came from outside
  const WayCost& way_cost(ValueId id, int way) const { return way_costs_[first_way_[at(id)] + at(way)]; }
  const OpCost& cost(OpId id) const { return costs_[at(id)]; }
  bool is_keepable(ValueId id) const { return keepable_[at(id)]; }
  bool is_repeatable(OpId id) const { return repeatable_[at(id)] != 0; }  // makes something that can be made again

  // A saved tensor that is written in place before backward stands for what it becomes: one handle is dropped and, at
  // once, another of the same storage saved. (handles_follow() in tape/writes.cpp)
  bool moves_away(HandleId id) const { return moves_away_[at(id)]; }
  bool moves_here(HandleId id) const { return moves_here_[at(id)]; }
  // The node that saved the handle, as the last backward that unpacks it shows.
  int32_t node(HandleId id) const { return node_[at(id)]; }
  OpId saved_at(HandleId id) const { return saved_at_[at(id)]; }  // the operator that comes next
  size_t dropped(HandleId id) const { return dropped_[at(id)]; }  // the event; none: the end

  const Graph& graph;
  const bool is_plain;
  const size_t first_unpack;  // an event: where forward has ended
  const bool has_several_backwards;
  bool drops_in_forward = false;  // a graph died there, with what it had saved
  bool sweeps = false;            // when a backward begins, since there may be what nothing needs

 private:
  void find_moves();
  void find_nodes();
  bool leaves_roots() const;

  const size_t storages_;
  const std::vector<bool> keepable_;
  std::vector<char> repeatable_;
  std::vector<OpCost> costs_;
  std::vector<WayCost> way_costs_;  // of all values, one after another
  std::vector<size_t> first_way_;   // by value, into way_costs_
  std::vector<bool> moves_away_, moves_here_;
  std::vector<int32_t> node_;
  std::vector<OpId> saved_at_;
  std::vector<size_t> dropped_;
};

}  // namespace retrace::plan
