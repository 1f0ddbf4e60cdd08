// The handles that autograd holds, and the backwards that run over them.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tape/op.h"

namespace retrace {

class Handle;

class HandleTable {
 public:
  // Handles that stand for a value.
  void add(Handle& handle);
  void remove(Handle& handle);
  const std::vector<Handle*>& all() const { return handles_; }

  // Handles that keep their tensor themselves. Only the timeline must know what that tensor has become.
  void add_keeper(Handle& handle);
  void remove_keeper(Handle& handle);

  // The handles that stand for a value, or keep its tensor.
  using OfValue = c10::SmallVector<Handle*, 2>;
  OfValue of(ValueId value) const;

  bool has_graph_to_come() const;  // something was saved that no backward has asked for yet

  // A round is a backward that has unpacked something here and has not ended. It owes one unpack of every handle that
  // was there when it joined.
  bool join_round(uint64_t round);   // false if it has joined before, or is 0: none
  bool leave_round(uint64_t round);  // false if it has not joined
  bool has_rounds() const { return !rounds_.empty(); }
  int32_t rounds_owing(const Handle& handle) const;  // rounds that have not unpacked it yet

  size_t bytes() const;

 private:
  void add_to(std::vector<Handle*>& all, Handle& handle);
  void remove_from(std::vector<Handle*>& all, Handle& handle);

  std::vector<Handle*> handles_;
  std::vector<Handle*> keepers_;
  std::vector<OfValue> of_values_;  // by value
  std::vector<uint64_t> rounds_;
};

}  // namespace retrace
