#include "tape/runtime_view.h"

namespace retrace {

TapeView::Value RuntimeView::value(ValueId id) const {
  const retrace::Value& v = tape_.value(id);
  return {.producer = v.producer,
          .recorded_at = v.recorded_at,
          .bytes = v.bytes,
          .handles = v.handles,
          .alive = v.alive,
          .pending = v.pending,
          .external = v.external,
          .has_gradient = at::isFloatingType(v.dtype) || at::isComplexType(v.dtype),
          .wanted = v.keep,
          .held = is_held(v),
          .rebuilt = static_cast<bool>(v.rebuilt)};
}

std::vector<TapeView::Arg> RuntimeView::args(OpId id) const {
  std::vector<Arg> args;
  for (const TensorArg& arg : tape_.op(id).args) {
    args.push_back({arg.value, arg.becomes, arg.shape_only, arg.geometry.bytes()});
  }
  return args;
}

std::vector<TapeView::ValueId> RuntimeView::results(OpId id) const {
  std::vector<ValueId> results;
  for_each_output(tape_.op(id), [&](ValueId v) { results.push_back(v); });
  return results;
}

void RuntimeView::let_go(ValueId id) {
  tape_.let_go(id);
  if (counters_) count(*counters_, &Counters::dropped_tensors, tape_.value(id).handles);
}

}  // namespace retrace
