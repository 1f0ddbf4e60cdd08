// The part of a step's record that is for people alone: shapes of results, names of weights, operators of backward.
// Written down as numbers while the step runs; made into text only for a graph that is asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "plan/graph/graph.h"
#include "tape/known_steps.h"
#include "tape/names.h"

namespace retrace {

// Ids are those of the graph. Called in the order of events.
class Description {
 public:
  explicit Description(std::shared_ptr<const NameTable> names) : names_(std::move(names)) {}

  void add_value(plan::ValueId value, const c10::StorageImpl* storage);
  void add_op(const plan::Op& op, at::TensorList results);
  // `events_before`: how many events, releases aside, the step had had before. Steps of one kind differ in when
  // releases are noticed.
  void add_backward(std::shared_ptr<const BackwardOps> ops, int32_t events_before);

  void add_to(plan::Graph& graph) const;

  // The description as it was after so many operators and backwards, with these values known.
  Description first(size_t ops, size_t backwards, const std::vector<char>& known_values) const;

 private:
  struct Output {
    size_t sizes_begin;  // in sizes_
    at::ScalarType dtype;
    at::Device device;
  };
  // A module, and the op that handed it on.
  struct Place {
    int32_t module = plan::kNone;
    plan::OpId op = plan::kNone;
  };

  void add_module(const plan::Op& op);
  const NameTable::Entry* weight(plan::ValueId value) const { return weights_[plan::at(value)]; }
  void name_values(plan::Graph& graph) const;
  std::vector<plan::Output> outputs(size_t op) const;
  void place_backward(plan::Graph& graph) const;

  std::shared_ptr<const NameTable> names_;  // null: nothing has a name, and nothing is written down about names
  std::vector<int64_t> sizes_;
  std::vector<Output> outputs_;
  std::vector<size_t> outputs_end_;               // by op
  std::vector<int32_t> modules_;                  // by op
  std::vector<const NameTable::Entry*> weights_;  // by value; null: none
  std::vector<Place> places_;                     // by value
  std::vector<std::pair<std::shared_ptr<const BackwardOps>, int32_t>> backwards_;
};

}  // namespace retrace
