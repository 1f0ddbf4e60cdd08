// When a value is live because it is kept, and what is live anyway: the part of a step that no plan can change.
//
// Everything here is a lower bound of what the simulator would say, so that prices made from it prove something. A kept
// value that is of use lives from its making until the last handle that surely needs it is dropped. Events at which the
// program has it, or a node of autograd has it unpacked, are left out: there it is live whether it is kept or not.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/graph/graph.h"

namespace retrace::plan {

struct Span {
  int32_t begin = 0, end = 0;  // events, the end excluded
};

class Lifetimes {
 public:
  explicit Lifetimes(const Graph& graph);

  size_t events() const { return base_.size(); }
  // Bytes that are live at an event whatever is kept.
  const std::vector<int64_t>& base() const { return base_; }
  int64_t most_base_bytes() const;  // no plan has a lower peak

  // When holding a value in this way makes bytes live. As it is: not while somebody else has it anyway. In any other
  // way: from beginning to end.
  std::span<const Span> spans(ValueId v, int way) const;
  Span whole(ValueId v) const { return whole_[at(v)]; }

  // Backward asks for it when the program no longer has it: it must be kept or rebuilt.
  bool asked(ValueId v) const { return asked_[at(v)] != 0; }
  // A replay can read it at no price: it is a root, or the program still has it when the first replay could want it.
  bool free(ValueId v) const { return free_[at(v)] != 0; }
  bool keepable(ValueId v) const { return keepable_[at(v)] != 0; }

  int32_t first_unpack() const { return first_unpack_; }

 private:
  using Unpacks = std::vector<std::pair<ValueId, int32_t>>;  // what was unpacked, and the event
  void read_events();
  void find_asked(const Unpacks& unpacks);
  void find_in_hand(const std::vector<int32_t>& dropped);
  std::vector<int32_t> first_reads(const Unpacks& unpacks) const;
  int32_t backward_end(int32_t event) const;
  void find_ends();
  void find_spans();
  void find_base();

  const Graph& graph_;
  std::vector<int64_t> base_;
  std::vector<char> asked_, free_, keepable_, last_content_;
  std::vector<int32_t> made_;               // by value: the event of its operator
  std::vector<int32_t> released_;           // by value: when the program let go of its storage
  std::vector<int32_t> alive_end_;          // by value: surely needed until then, if of use at all
  std::vector<int32_t> last_drop_;          // by value; -1 if never saved
  std::vector<std::vector<Span>> in_hand_;  // by value: unpacked by a node; spans in order that do not touch
  std::vector<Span> whole_, all_spans_;
  std::vector<int32_t> first_span_;  // by value, into all_spans_
  const int32_t first_unpack_;
};

}  // namespace retrace::plan
