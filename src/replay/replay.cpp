#include "replay/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

#include <retrace/errors.h>

#include "libtorch/compat.h"
#include "memory/allocator.h"
#include "plan/simulate/demand.h"
#include "tape/budgeted_step.h"
#include "tape/fingerprint.h"
#include "tape/generator.h"
#include "tape/handle.h"
#include "tape/scope.h"
#include "tape/shortcut.h"
#include "tape/timeline.h"
#include "testing/hooks.h"

namespace retrace {
namespace {

// What stands behind a tensor whose content nobody looks at.
const c10::Storage& no_content() {
  static const auto* const storage =
      new c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::GetCPUAllocator(), /*resizable=*/false);
  return *storage;
}

c10::IValue as_list(const ListArg& list, const std::vector<at::Tensor>& tensors) {
  if (!list.optionals) return c10::List<at::Tensor>(tensors);
  c10::List<c10::optional<at::Tensor>> optionals;
  for (const at::Tensor& t : tensors) optionals.push_back(t.defined() ? c10::optional<at::Tensor>(t) : c10::nullopt);
  return optionals;
}

std::vector<at::Tensor> flattened(const std::vector<c10::IValue>& stack) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) {
      tensors.push_back(v.toTensor());
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) tensors.push_back(t);
    }
  }
  return tensors;
}

}  // namespace

c10::Storage Replay::materialize(ValueId target) {
  if (c10::Storage available = tape_.content(target, nullptr)) return available;
  const Pause pause;
  const at::NoGradGuard no_grad;
  const memory::OwnerScope owner(memory::Owner::rebuilt);
  do {
    try {
      const Tape::Strict strict(tape_);
      return attempt(target);
    } catch (const OverBudget&) {
    }
  } while (give_up_waiting());
  return attempt(target);
}

// What was there from the beginning, to be read only after the op that ran out of room, took the room. Without it the next
// attempt begins further back, and has it only when its turn comes; in the end from the roots. False if nothing waited.
bool Replay::give_up_waiting() {
  // What the attempt made goes first: each then begins with less than the one before, so that they come to an end.
  for (const ValueId id : made_) {
    if (!tape_.value(id).rebuilt) continue;
    tape_.value(id).rebuilt = c10::Storage();
    ceases_source<Pending>(tape_, id);
  }
  bool gave_up = false;
  for (size_t i = progress_ + 1; i < order_.size(); ++i) {
    const Op* const op = tape_.find_op(order_[i]);
    if (!op) continue;
    for (const TensorArg& arg : op->args) {
      if (!arg.shape_only) gave_up |= tape_.evict(arg.value) > 0;
    }
  }
  return gave_up;
}

c10::Storage Replay::attempt(ValueId target) {
  order_.clear();
  made_.clear();
  touched_.clear();
  scratch_.clear();
  c10::Storage result;
  try {
    plan(target);
    choose_segment(target);
    for (progress_ = 0; progress_ < order_.size(); ++progress_) run(order_[progress_]);
    result = obtain(target, nullptr);
  } catch (...) {
    for (const ValueId v : touched_) tape_.value(v).uses = 0;
    for (const ValueId v : touched_) release(v);
    throw;
  }
  --tape_.value(target).uses;
  release(target);
  return result;
}

// Everything between the target and the nearest values that are at hand.
void Replay::plan(ValueId target) {
  const uint32_t serial = ++tape_.replays_;
  std::vector<ValueId> work;
  if (!at_hand(target, nullptr)) work.push_back(target);
  const auto use = [&](ValueId v) {
    ++tape_.value(v).uses;
    touched_.push_back(v);
  };
  use(target);
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    Op& op = tape_.op(tape_.value(id).producer);
    if (op.visited == serial) continue;
    op.visited = serial;
    order_.push_back(tape_.value(id).producer);
    for (const TensorArg& arg : op.args) {
      if (arg.shape_only) continue;
      use(arg.value);
      if (!at_hand(arg.value, &op)) work.push_back(arg.value);
      inside_segment_ |= tape_.value(arg.value).segment_start && tape_.value(arg.value).rebuilt;
    }
  }
  std::sort(order_.begin(), order_.end());
}

bool Replay::at_hand(ValueId id, const Op* wanted_by) {
  return tape_.value(id).held.is_stored() || static_cast<bool>(tape_.content(id, wanted_by));
}

// A value's content, taken from where it was put away if need be; it then counts as rebuilt.
c10::Storage Replay::obtain(ValueId id, const Op* wanted_by) {
  c10::Storage there = tape_.content(id, wanted_by);
  if (there || !tape_.value(id).held.is_stored()) return there;
  const auto start = std::chrono::steady_clock::now();
  c10::Storage taken = tape_.value(id).held.take();
  const auto spent = std::chrono::steady_clock::now() - start;
  if (tape_.timeline) tape_.timeline->track(taken);
  if (!tape_.counters.empty()) {
    count(tape_.counters.front(), &Counters::replay_nanoseconds, std::chrono::nanoseconds(spent).count());
  }
  tape_.value(id).rebuilt = taken;
  made_.push_back(id);
  return taken;
}

void Replay::choose_segment(ValueId target) {
  if (inside_segment_) return;
  segments_ = choose_segments(tape_, order_, target);
  for (const ValueId v : segments_.held) {
    tape_.value(v).segment_start = true;
    tape_.segment_starts.push_back(v);
  }
}

void Replay::run(OpId id) {
  Op& op = tape_.op(id);
  const bool shortcut = may_take_shortcut(op);
  std::vector<c10::IValue> stack = arguments_of(op, !shortcut);
  if (shortcut) {
    call_shortcut(op, stack);
  } else {
    call(op, stack);
  }
  store(op, stack);
  stack.clear();
  scratch_.clear();
  release_inputs(op);
}

// All other results are there, or nobody wants them.
bool Replay::may_take_shortcut(const Op& op) {
  if (op.shortcut_seconds <= 0) return false;
  const bool given = std::all_of(op.fresh.begin() + 1, op.fresh.end(), [&](const FreshOutput& output) {
    return static_cast<bool>(tape_.content(output.value, &op));
  });
  return given && std::none_of(op.args.begin(), op.args.end(), [&](const TensorArg& arg) {
           return arg.becomes != kNone && (tape_.value(arg.becomes).uses > 0 || tape_.value(arg.becomes).pending > 0);
         });
}

// What an operator writes is left out of a shortcut, which does not write it.
std::vector<c10::IValue> Replay::arguments_of(const Op& op, bool with_written) {
  std::vector<c10::IValue> stack = op.stack;
  std::vector<std::vector<at::Tensor>> lists(op.lists.size());
  for (size_t l = 0; l < op.lists.size(); ++l) lists[l].resize(static_cast<size_t>(op.lists[l].size));
  scratch_.resize(op.args.size());
  for (size_t i = 0; i < op.args.size(); ++i) {
    const TensorArg& arg = op.args[i];
    if (arg.becomes != kNone && with_written) scratch_[i] = scratch_for(op, arg);
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    const TensorArg& arg = op.args[i];
    if (arg.becomes != kNone && !with_written) continue;
    c10::Storage storage = scratch_[i];
    // The same content read through another argument sees what the operator writes, as it did in forward.
    for (size_t j = 0; !storage && j < op.args.size(); ++j) {
      if (op.args[j].value == arg.value) storage = scratch_[j];
    }
    if (!storage && arg.shape_only) storage = no_content();
    if (!storage) storage = obtain(arg.value, &op);
    at::Tensor tensor = arg.geometry.over(std::move(storage));
    if (arg.element == kNone) {
      stack[static_cast<size_t>(arg.slot)] = std::move(tensor);
    } else {
      const auto list = std::find_if(op.lists.begin(), op.lists.end(), [&](auto& l) { return l.slot == arg.slot; });
      lists[static_cast<size_t>(list - op.lists.begin())][static_cast<size_t>(arg.element)] = std::move(tensor);
    }
  }
  for (size_t l = 0; l < op.lists.size(); ++l)
    stack[static_cast<size_t>(op.lists[l].slot)] = as_list(op.lists[l], lists[l]);
  return stack;
}

// A private storage with the content an operator is about to write over. What we rebuilt and nobody else will ask for is
// used as it is; anything the program or autograd can see is copied.
c10::Storage Replay::scratch_for(const Op& op, const TensorArg& arg) {
  int32_t here = 0;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].value != arg.value) continue;
    if (scratch_[i]) return scratch_[i];
    here += !op.args[i].shape_only;
  }
  c10::Storage content = obtain(arg.value, &op);
  Value& v = tape_.value(arg.value);
  const int32_t waiting = v.pending - (op.pending > 0 ? here : 0);
  const bool ours_alone = v.rebuilt && v.rebuilt.use_count() == 2;  // `content` is the other
  if (!ours_alone || v.uses > here || waiting > 0) return memory::copy_of(content);
  c10::Storage taken = std::move(v.rebuilt);
  v.rebuilt = c10::Storage();
  ceases_source<Pending>(tape_, arg.value);
  return taken;
}

void Replay::call_shortcut(Op& op, std::vector<c10::IValue>& stack) {
  std::vector<at::Tensor> rest;
  for (size_t i = 1; i < op.fresh.size(); ++i) {
    const ValueId id = op.fresh[i].value;
    rest.push_back(Geometry::flat(tape_.value(id).bytes, tape_.value(id).dtype).over(tape_.content(id, &op)));
  }
  take_shortcut(stack, rest);
  const double seconds = call(op, stack);
  if (tape_.timeline) tape_.timeline->shortcut_took(op, seconds);
}

double Replay::call(Op& op, std::vector<c10::IValue>& stack) {
  detail::maybe_fail_operator(op.traits->name.name.c_str());
  std::optional<DefaultGeneratorSwap> swap;
  if (op.generator.defined()) {
    if (op.traits->generator_argument >= 0) {
      stack[static_cast<size_t>(op.traits->generator_argument)] = snapshot(op.generator);
    } else {
      swap.emplace(op.generator);
    }
  }
  const AsRecorded as_recorded(tape_.settings(op.settings));
  const auto start = std::chrono::steady_clock::now();
  op.handle.redispatchBoxed(op.keys, &stack);
  const auto spent = std::chrono::steady_clock::now() - start;
  count(op.counters, &Counters::ops_replayed);
  count(op.counters, &Counters::replay_nanoseconds, std::chrono::nanoseconds(spent).count());
  return std::chrono::duration<double>(spent).count();
}

void Replay::store(const Op& op, const std::vector<c10::IValue>& stack) {
  const std::vector<at::Tensor> tensors = flattened(stack);
  for (const FreshOutput& output : op.fresh) {
    const at::Tensor& tensor = tensors.at(static_cast<size_t>(output.position));
    set_rebuilt(op, output.value, tensor.storage());
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].becomes != kNone) set_rebuilt(op, op.args[i].becomes, scratch_[i]);
  }
}

void Replay::set_rebuilt(const Op& op, ValueId id, const c10::Storage& storage) {
  Value& v = tape_.value(id);
  if (v.rebuilt || v.held || (v.uses == 0 && v.pending == 0)) return;
  if (static_cast<int64_t>(storage.nbytes()) != v.bytes) {
    throw InternalError("[backward] op '" + op.name() + "': it made " + std::to_string(storage.nbytes()) +
                        " bytes when replayed and " + std::to_string(v.bytes) +
                        " in forward, so its result cannot be used. Keep it: retrace::selective({\"" + op.name() +
                        "\"}); and please report this.");
  }
  becomes_source<Pending>(tape_, id);
  v.rebuilt = storage;
  made_.push_back(id);
  tape_.used(id);
  if (tape_.timeline) tape_.timeline->track(storage);
  if (v.uses == 0) release(id);
}

void Replay::release_inputs(const Op& op) {
  for (const TensorArg& arg : op.args) {
    if (arg.shape_only) continue;
    --tape_.value(arg.value).uses;
    release(arg.value);
  }
}

void Replay::release(ValueId id) {
  Value& v = tape_.value(id);
  if (v.uses > 0 || !v.rebuilt || stays(id)) return;
  v.rebuilt = c10::Storage();
  ceases_source<Pending>(tape_, id);
}

bool Replay::stays(ValueId id) const {
  const Value& v = tape_.value(id);
  if (v.pending == 0) return false;
  if (tape_.budgeted_step && tape_.budgeted_step->follows_plan() &&
      tape_.budgeted_step->choice(id) == plan::Choice::rebuild_each_time())
    return false;
  const bool passed_through = v.producer <= segments_.until && tape_.op(v.producer).visited == tape_.replays_;
  return !passed_through || std::binary_search(segments_.held.begin(), segments_.held.end(), id);
}

void Tape::hold_rebuilt(ValueId id) {
  c10::Storage storage = Replay(*this).materialize(id);
  const bool ours = storage.unsafeGetStorageImpl() != this->storage(value(id).storage).pin._unsafe_get_target();
  ours ? hold_copy(id, std::move(storage)) : hold(id, storage);
}

namespace {

// Of the values at hand whose content differs from forward's, the one made first: it is nearest to the cause.
[[noreturn]] void report_mismatch(Tape& tape, const Handle& found, const std::vector<Handle*>& handles) {
  const Handle* culprit = &found;
  for (const Handle* const handle : handles) {
    const Value& v = tape.value(handle->value());
    if (!handle->fingerprint() || !v.rebuilt || tape.is_root(v) || v.producer >= tape.value(culprit->value()).producer)
      continue;
    if (fingerprint(handle->geometry().over(v.rebuilt)) != *handle->fingerprint()) culprit = handle;
  }
  const Op* const op = tape.find_op(tape.value(culprit->value()).producer);
  const std::string name = op ? op->name() : "?";
  throw InternalError("[verify] op '" + name + "': its result " + culprit->geometry().describe() +
                      " differs from the one computed in forward, so gradients would be wrong. The operator, or one "
                      "before it that saves nothing, does not compute the same thing twice, or memory was changed "
                      "behind LibTorch's back. Keep its result with retrace::selective({\"" +
                      name + "\"}).");
}

}  // namespace

// Whether what is handed out is what forward computed. The tensor that autograd itself would have saved is, whatever has
// become of it: then plain autograd goes on with that, too. Without a fingerprint of this very tensor, the mark that every
// content gets must do.
void Tape::verify(const Handle& handle, const c10::Storage& storage, const at::Tensor& tensor) {
  const ValueId id = handle.value();
  const Value& v = value(id);
  const Pause pause;
  const bool original = storage.unsafeGetStorageImpl() == this->storage(v.storage).pin._unsafe_get_target();
  if (handle.fingerprint()) {
    if (fingerprint(tensor) == *handle.fingerprint()) {
      count(handle.counters(), &Counters::values_verified);
    } else if (!original) {
      report_mismatch(*this, handle, handles_);
    }
  } else if (!original && v.dense && !v.scratch && !lossy && !is_as_marked(id, storage)) {
    report_mismatch(*this, handle, handles_);
  }
}

at::Tensor Tape::unpack(Handle& handle) {
  const Lock lock(*this);
  begin_event();
  const uint64_t round = current_round();
  join_round(round);
  const ValueId id = handle.value();
  if (timeline && handle.timeline_id() >= 0) timeline->unpack_begins(*this, handle.timeline_id());
  c10::Storage storage = Replay(*this).materialize(id);
  if (timeline) timeline->unpack_ended();
  if (!budgeted_step) value(id).given.emplace(storage.getWeakStorageImpl());
  used(id);
  at::Tensor tensor = handle.geometry().over(storage);
  verify(handle, storage, tensor);
  if (round != 0 && !handle.consumed_in(round)) {
    handle.consume(round);
    change_need<Pending>(*this, id, -1);
  }
  if (const auto scope = current_scope(); scope && scope->tape.get() == this) {
    alias(storage, tensor.unsafeGetTensorImpl()->version_counter(), id);
  }
  return tensor;
}

}  // namespace retrace
