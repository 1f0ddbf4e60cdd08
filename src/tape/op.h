// One recorded operator: enough to run it again.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <vector>

#include "tape/counters.h"
#include "tape/geometry.h"
#include "tape/operators.h"
#include "tape/recycled.h"

namespace retrace {

using ValueId = int32_t;
using OpId = int32_t;
using StorageId = int32_t;
inline constexpr int32_t kNone = -1;

// Who needs a value or an op: plan/simulate/demand.h says how these are counted.
struct DemandCounts {
  int32_t alive = 0;
  int32_t pending = 0;
  int32_t reach = 0;  // counted only under a budget
};

// An operator's tensor argument: which content it saw, and through which view.
struct TensorArg {
  ValueId value = kNone;
  ValueId becomes = kNone;             // the value it is after the operator wrote it in place
  int32_t slot = 0;                    // position on the operator's stack
  int32_t element = kNone;             // position in a tensor list, or none
  bool shape_only = false;             // the operator does not look at the content
  bool has_gradient = true;            // autograd differentiates what it saw
  OpId read_before_by = kNone;         // the op that read the same value last
  const Geometry* geometry = nullptr;  // in the tape's table
};

struct ListArg {
  int32_t slot = 0;
  int32_t size = 0;
  bool optionals = false;
};

struct FreshOutput {
  int32_t position = 0;  // among the tensors the operator returned, lists flattened
  ValueId value = kNone;
};

struct Op : DemandCounts, Recycled<Op> {
  explicit Op(const c10::OperatorHandle& h, const OpTraits& t) : handle(h), traits(&t) {}

  c10::OperatorHandle handle;
  const OpTraits* traits;
  c10::DispatchKeySet keys;  // that the dispatcher went on with after the recorder
  int32_t settings = kNone;  // that it ran with: a position in the tape's settings
  // The inline sizes make one block of memory of the smallest operators, for which a second block would cost most.
  c10::SmallVector<c10::IValue, 2> stack;  // arguments, tensors blanked
  c10::SmallVector<TensorArg, 1> args;
  std::vector<ListArg> lists;
  c10::SmallVector<FreshOutput, 1> fresh;
  at::Generator generator;  // in the state before it drew; undefined if it drew nothing
  float seconds = 0;
  float shortcut_seconds = 0;  // to make its first result from the others; 0: that cannot be done
  int32_t timeline_id = kNone;
  Counters* counters = nullptr;  // the tape keeps them alive

  uint32_t visited = 0;  // the latest replay that planned to run it
  uint32_t priced = 0;   // the latest walk that came here: see Tape::next_pricing()

  std::string name() const { return traits->name.name; }
};

// Call f with every value that an op makes, fresh ones first; with every value whose content it reads.
void for_each_output(const Op& op, auto f) {
  for (const FreshOutput& output : op.fresh) f(output.value);
  for (const TensorArg& arg : op.args) {
    if (arg.becomes != kNone) f(arg.becomes);
  }
}
void for_each_read(const Op& op, auto f) {
  for (const TensorArg& arg : op.args) {
    if (!arg.shape_only) f(arg.value);
  }
}

// Whether it reads one of the values that are marked, by id.
inline bool reads_any(const Op& op, const std::vector<char>& values) {
  return std::any_of(op.args.begin(), op.args.end(), [&](const TensorArg& arg) {
    return !arg.shape_only && values[static_cast<size_t>(arg.value)] != 0;
  });
}

}  // namespace retrace
