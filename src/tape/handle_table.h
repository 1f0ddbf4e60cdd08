// The handles that autograd holds, and the backwards that run over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retrace {

class Handle;

class HandleTable {
 public:
  // Those that stand for a value.
  void add(Handle& handle);
  void remove(Handle& handle);
  const std::vector<Handle*>& all() const { return handles_; }

  // Those that keep their tensor themselves: only the timeline must know what that has become.
  void add_keeper(Handle& handle);
  void remove_keeper(Handle& handle);
  const std::vector<Handle*>& keepers() const { return keepers_; }

  bool has_graph_to_come() const;  // saved, and no backward has asked for it yet

  // Rounds: backwards that have unpacked here and not ended. Each owes one unpack of every handle there was when it joined.
  bool join_round(uint64_t round);   // false if it has, or is none
  bool leave_round(uint64_t round);  // false if it has not joined
  bool has_rounds() const { return !rounds_.empty(); }
  int32_t rounds_owing(const Handle& handle) const;  // that have not unpacked it

  size_t bytes() const;

 private:
  std::vector<Handle*> handles_;
  std::vector<Handle*> keepers_;
  std::vector<uint64_t> rounds_;
};

}  // namespace retrace
