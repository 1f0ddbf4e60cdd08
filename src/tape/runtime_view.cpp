#include "tape/runtime_view.h"

#include "tape/handle.h"
#include "tape/marks.h"

namespace retrace {

TapeView::Value RuntimeView::value(ValueId id) const {
  const retrace::Value& v = tape_.value(id);
  return {.producer = v.producer,
          .recorded_at = v.recorded_at,
          .last_read_by = v.last_read_by,
          .bytes = v.bytes,
          .handles = v.handles,
          .alive = v.alive,
          .pending = v.pending,
          .external = v.external,
          .has_gradient = at::isFloatingType(v.dtype) || at::isComplexType(v.dtype),
          .wanted = v.keep,
          .held = is_held(v),
          .rebuilt = static_cast<bool>(v.rebuilt),
          .is_copy = v.held.is_copy() && !v.held.is_rebuilt(),
          .holders = v.holders,
          .uses = v.uses};
}

std::vector<TapeView::ValueId> RuntimeView::saved() const {
  std::vector<ValueId> saved;
  for (const Handle* const handle : tape_.handles.all()) saved.push_back(handle->value());
  return saved;
}

bool RuntimeView::is_shared(ValueId id) const {
  const retrace::Value& v = tape_.value(id);
  return v.held ? v.held.is_shared() : v.rebuilt && v.rebuilt.use_count() > 1;
}

bool RuntimeView::is_elsewhere(ValueId id) const {
  const retrace::Value& v = tape_.value(id);
  const bool given = v.given && v.given->use_count() > 0;
  return given || tape_.storage(v.storage).pin.use_count() > 0;
}

std::vector<TapeView::Arg> RuntimeView::args(OpId id) const {
  std::vector<Arg> args;
  for (const TensorArg& arg : tape_.op(id).args) {
    args.push_back({arg.value, arg.becomes, arg.shape_only, arg.geometry->bytes()});
  }
  return args;
}

std::vector<TapeView::ValueId> RuntimeView::results(OpId id) const {
  std::vector<ValueId> results;
  for_each_output(tape_.op(id), [&](ValueId v) { results.push_back(v); });
  return results;
}

bool RuntimeView::hold_at_hand(ValueId id) {
  const retrace::Value& v = tape_.value(id);
  const c10::Storage living = tape_.living_storage(id);
  if (living && is_as_marked(v, living)) {
    tape_.hold(id, living);
  } else if (v.rebuilt) {
    tape_.hold_rebuilt(id);
  }
  return is_held(v);
}

bool RuntimeView::hold_given(ValueId id) {
  const retrace::Value& v = tape_.value(id);
  auto given = v.given ? v.given->lock() : c10::intrusive_ptr<c10::StorageImpl>();
  if (given) tape_.hold_unpacked(id, c10::Storage(std::move(given)));
  return is_held(v);
}

void RuntimeView::give_up(ValueId id) {
  tape_.value(id).keep = false;
  if (may_be_forgotten(tape_, id)) tape_.let_go(id);
}

void RuntimeView::let_go(ValueId id) {
  if (!may_be_forgotten(tape_, id)) return;
  tape_.let_go(id);
  if (counters_) count(counters_->get(), &Counters::dropped_tensors, tape_.value(id).handles);
}

}  // namespace retrace
