#include "replay/demand.h"

namespace retrace {
namespace {

struct Change {
  ValueId value;
  int32_t by;
};

// The op starts or stops being needed; so do the values it reads.
template <class Kind>
void change_op(Op& op, int32_t by, std::vector<Change>& work) {
  int32_t& need = Kind::of(op);
  const bool was_needed = need > 0;
  need += by;
  if (was_needed == (need > 0)) return;
  for (const TensorArg& arg : op.args) {
    if (!arg.shape_only) work.push_back({arg.value, by});
  }
}

template <class Kind>
void run(Tape& tape, std::vector<Change>& work) {
  while (!work.empty()) {
    const auto [id, by] = work.back();
    work.pop_back();
    Value& v = tape.value(id);
    const bool was_needed = Kind::of(v) > 0;
    Kind::of(v) += by;
    const bool is_needed = Kind::of(v) > 0;
    if (was_needed == is_needed) continue;
    const bool source = Kind::is_source(v);
    if (!is_needed) Kind::nobody(tape, id);
    if (!source) change_op<Kind>(tape.op(v.producer), is_needed ? 1 : -1, work);
  }
}

}  // namespace

template <class Kind>
void change_need(Tape& tape, ValueId value, int32_t by) {
  std::vector<Change> work{{value, by}};
  run<Kind>(tape, work);
}

template <class Kind>
void becomes_source(Tape& tape, ValueId value) {
  Value& v = tape.value(value);
  if (Kind::is_source(v) || Kind::of(v) == 0) return;
  std::vector<Change> work;
  change_op<Kind>(tape.op(v.producer), -1, work);
  run<Kind>(tape, work);
}

template <class Kind>
void ceases_source(Tape& tape, ValueId value) {
  Value& v = tape.value(value);
  if (Kind::is_source(v) || Kind::of(v) == 0) return;
  std::vector<Change> work;
  change_op<Kind>(tape.op(v.producer), 1, work);
  run<Kind>(tape, work);
}

template void change_need<Alive>(Tape&, ValueId, int32_t);
template void change_need<Pending>(Tape&, ValueId, int32_t);
template void becomes_source<Alive>(Tape&, ValueId);
template void becomes_source<Pending>(Tape&, ValueId);
template void ceases_source<Alive>(Tape&, ValueId);
template void ceases_source<Pending>(Tape&, ValueId);

}  // namespace retrace
