// The arguments of an operator: looked at before it runs, and once more afterwards.
#pragma once

#include <utility>
#include <vector>

#include "tape/scope.h"
#include "tape/stack.h"

namespace retrace {

using Positions = c10::SmallVector<size_t, 4>;

// Fills in the arguments of an Op that is about to run, and sees to it that what it will overwrite can be had again.
class Arguments {
 public:
  Arguments(const Scope& scope, Op& op) : scope_(scope), op_(op), traits_(*op.traits), repeatable_(!traits_.opaque) {}
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Before the operator runs: `stack` ends with its arguments.
  void read(Tape& tape, const std::vector<c10::IValue>& stack);
  // After it ran. An operator that is not LibTorch's own may have written an argument without saying so. Then it cannot
  // be run again this time, since what was there before is gone; from now on it counts as one that writes in place.
  void operator_ran(Tape& tape);

  bool repeatable() const { return repeatable_; }                     // it could be run again, as far as is known
  bool replayable() const { return scope_.may_drop && repeatable_; }  // and the scope may forget its results
  void cannot_be_repeated() { repeatable_ = false; }

  const Tensors& seen() const { return seen_; }          // parallel to op.args
  const Positions& written() const { return written_; }  // positions in op.args
  bool is_written(ValueId value) const;
  bool reads_unheld_root(const Tape& tape) const;    // by the plan that is followed now
  bool took_memory() const { return took_memory_; }  // to copy or rebuild what is about to be overwritten
  using Copy = std::pair<ValueId, c10::Storage>;
  std::vector<Copy> take_copies() { return std::move(copies_); }  // of what was overwritten

 private:
  void read_argument(Tape& tape, const c10::IValue& argument, size_t slot);
  void read_tensor(Tape& tape, const at::Tensor& tensor, size_t slot, int32_t element);
  bool writes(size_t slot) const;
  bool may_write_anything(const Tape& tape) const;
  void suspect_all();
  bool leaves_out_written(const Tape& tape) const;
  bool copy_may_pay(const Value& before) const;
  void prepare_write(Tape& tape, TensorArg& arg, const at::Tensor& seen);
  void need_recipe(Tape& tape, ValueId value);

  const Scope& scope_;
  Op& op_;
  const OpTraits& traits_;
  bool repeatable_;
  bool took_memory_ = false;
  bool silent_writes_ = false;  // whether the operator writes what its schema does not admit to
  Tensors seen_;
  Positions written_;
  Positions roots_read_;  // in op.args
  std::vector<Copy> copies_;
  struct Needed {
    ValueId value;
    c10::Storage held;  // by the tape until now
  };
  std::vector<Needed> needed_;  // values about to be overwritten whose recipes must stay
};

}  // namespace retrace
