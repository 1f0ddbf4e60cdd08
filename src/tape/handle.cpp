#include "tape/handle.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include <retrace/errors.h>

#include "device/device.h"
#include "tape/budgeted_step.h"
#include "tape/fate.h"
#include "tape/no_grad_views.h"
#include "tape/runtime_view.h"
#include "tape/scope.h"
#include "tape/timeline.h"
#include "tape/verify.h"
#include "tape/writes.h"

namespace retrace {
namespace {

// The tensor as a handle may hold it. A tensor with a history is held without it: if it is the output of the node that
// saves it, holding the history would make a cycle. One without is held as it is, and handed back as the same object.
at::Tensor without_history(const at::Tensor& tensor) { return tensor.grad_fn() ? tensor.tensor_data() : tensor; }

uint32_t version_of(const c10::VariableVersion& version) { return version.enabled() ? version.current_version() : 0; }

// Once per value, in a step of which that is not known yet: in what ways it could be held, and what they take.
void look_for_ways(Tape& tape, ValueId id, const c10::Storage& storage) {
  if (!tape.budgeted_step->looks_for_ways() || tape.timeline->looked_for_ways(id)) return;
  for (const store::Kind* const kind : tape.budgeted_step->kinds()) {
    if (auto way = kind->measure(storage, tape.value(id).dtype)) tape.timeline->can_be_held(id, std::move(*way));
  }
}

// In a session's step without a budget: see Tape::hold_unpacked().
bool holds_what_it_unpacks(const Tape& tape) {
  return tape.tags_weights && !tape.budgeted_step && !tape.ended_step && backward_frees_graph();
}

}  // namespace

Handle::~Handle() {
  if (!tape_) return;
  const SharedTape::Entry tape(*tape_);
  if (timeline_id_ >= 0 && tape->timeline) tape->timeline->dropped(*tape, timeline_id_);
  if (value_ != kNone) tape->drop_handle(*this);
  if (holds_ == kNone) return;
  tape->handles.remove_keeper(*this);
  tape->remove_holder(holds_, tensor_.storage());
  if (!tape->value(holds_).held) return;
  tensor_ = at::Tensor();  // the tape has it, too
  tape->keeper_gone(holds_);
}

void Handle::call_pack_hook(const at::Tensor& tensor) {
  Scope& scope = *std::exchange(scope_, nullptr);
  const Pause pause;  // a view may make its history anew here, with operators
  counters_ = scope.counters.get();
  scope.ops_in_vain = 0;
  count_alone(counters_, &Counters::saved_tensors);
  version_ = tensor.unsafeGetTensorImpl()->version_counter();
  saved_version_ = version_of(version_);
  orphan_ = is_no_grad_view(tensor);
  save(tensor, scope);
}

void Handle::save(const at::Tensor& tensor, Scope& scope) {
  const SharedTape::Lock lock(*scope.tape);
  Tape& tape = *lock;
  begin_event(tape);
  if (!understood(tensor) || tape.find(tensor) == kNone) {
    tensor_ = without_history(tensor);
    return;
  }
  const ValueId id = look_at(tape, tensor);
  const Value& v = tape.value(id);
  const Fate fate = fate_when_saved(tape, id, scope.may_drop);
  if (is_root(fate)) {
    tape_ = scope.tape;
    return keep_tensor(tensor, tape, id);
  }
  geometry_ = tape.geometries.find_or_add(tensor);
  const bool verifies = scope.verify || tape.marking.verifies;
  // What a budget holds may still be let go of: worth a look once, in a step that is new.
  const bool may_go =
      tape.budgeted_step ? !tape.budgeted_step->only_measures() && (!v.keep || tape.marking.whole) : !v.keep;
  const bool has_whole_mark = v.dense && v.marked_whole;  // which verify_unpacked() compares, too
  if (verifies && !tape.marking.lossy && !v.scratch && may_go && !has_whole_mark)
    fingerprint_ = retrace::fingerprint(tensor);
  if (tape.timeline) {
    timeline_id_ = tape.timeline->saved(tape, id);
    if (tape.budgeted_step) look_for_ways(tape, id, tensor.storage());
  }
  if (is_held_when_saved(fate)) {
    tape.hold(id, tensor.storage());
  } else {
    hold_if_better(tape, id, tensor.storage());
  }
  value_ = id;
  saved_at_ = tape.next_op();
  tape.add_handle(*this);
  if (scope.cuts) scope.cuts->saved(tape, id, tensor.storage());
  if (!v.held.storage()) count(counters_, &Counters::dropped_tensors);
  tape_ = scope.tape;
}

void Handle::keep_tensor(const at::Tensor& tensor, Tape& tape, ValueId id) {
  const Value& v = tape.value(id);
  // The program's own object, or a view of it, would hide from a timeline whether the program still has the storage.
  const bool apart = tape.timeline && !v.external;
  tensor_ = apart ? tensor.tensor_data() : without_history(tensor);
  tape.add_holder(id, tensor.storage());
  holds_ = id;
  tape.handles.add_keeper(*this);
  if (!tape.timeline || v.external) return;
  timeline_id_ = tape.timeline->saved(tape, id);
  if (!tape.budgeted_step) return;
  if (tape.budgeted_step->only_measures() && !v.unwritten) {
    if (tape.timeline->can_be_rebuilt(id)) look_for_ways(tape, id, tensor.storage());
  } else {
    tape.timeline->became_root(tape, id);  // nothing will make us let go of it, so no plan should count on that
  }
}

at::Tensor Handle::call_unpack_hook() {
  check_version();
  unpacked_ = true;
  if (orphan_) {
    throw NotSupported(
        "[backward] a view that was made under no_grad of a tensor with grad, before the checkpoint or step "
        "began, was saved for backward, which LibTorch cannot do through hooks, so backward cannot go on. "
        "Make it with detach() instead, or inside the checkpoint.");
  }
  if (value_ != kNone) return unpack_value();
  if (timeline_id_ >= 0) {
    const SharedTape::Lock tape(*tape_);
    if (tape->timeline) tape->timeline->unpack_begins(*tape, timeline_id_);
  }
  return tensor_;
}

at::Tensor Handle::unpack_value() {
  const std::shared_ptr<Scope> scope = current_scope();  // unlocked: it may find that a scope has ended
  const SharedTape::Lock lock(*tape_);
  Tape& tape = *lock;
  begin_event(tape);
  tape.set_backward_at(saved_at_);
  const uint64_t round = current_round();
  if (tape.join_round(round)) remember_round(tape_);
  if (tape.timeline && timeline_id_ >= 0) tape.timeline->unpack_begins(tape, timeline_id_);
  const bool is_held = tape.value(value_).held.storage().operator bool();
  c10::Storage storage = tape.rebuild(tape, value_);
  if (tape.timeline && !is_held) tape.timeline->unpack_ended();
  if (!tape.budgeted_step) tape.value(value_).given.emplace(storage.getWeakStorageImpl());
  tape.used(value_);
  at::Tensor tensor = geometry_->over(storage);
  verify_unpacked(tape, *this, storage);
  if (tape.tags_weights && !tape.budgeted_step) tape.between_backwards.unpacked(RuntimeView(tape), value_);
  if (holds_what_it_unpacks(tape)) tape.hold_unpacked(value_, storage);
  if (round != 0 && !consumed_in(round)) {
    consume(round);
    change_need<Pending>(tape, value_, -1);
  }
  // What is recorded during a backward may read what it was given.
  if (scope && scope->tape == tape_ && !tape.closed()) {
    tape.storages.add_alias(storage, tensor.unsafeGetTensorImpl()->version_counter(), value_);
  }
  return tensor;
}

// What autograd does for tensors saved without hooks.
void Handle::check_version() const {
  TORCH_CHECK(is_unchanged(),
              "one of the variables needed for gradient computation has been modified by an inplace operation: [",
              (tensor_.defined() ? Geometry::of(tensor_) : *geometry_).describe(), "] is at version ",
              version_of(version_), "; expected version ", saved_version_,
              " instead. Hint: change a clone of the tensor, or change it after backward.");
}

bool Handle::is_unchanged() const { return version_of(version_) == saved_version_; }

void Handle::follow(ValueId value) {
  value_ = value;
  fingerprint_.reset();
}

void Handle::hold_as(Tape& tape, ValueId value) {
  tape.handles.remove_keeper(*this);
  tape.remove_holder(holds_, tensor_.storage());
  tape.add_holder(value, tensor_.storage());
  holds_ = value;
  tape.handles.add_keeper(*this);
}

bool Handle::consumed_in(uint64_t round) const {
  return std::find(rounds_.begin(), rounds_.end(), round) != rounds_.end();
}

bool Handle::forget_round(uint64_t round) {
  const auto entry = std::find(rounds_.begin(), rounds_.end(), round);
  if (entry == rounds_.end()) return false;
  rounds_.erase(entry);
  return true;
}

}  // namespace retrace
