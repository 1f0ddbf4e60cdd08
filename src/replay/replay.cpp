#include "replay/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <retrace/errors.h>

#include "device/device.h"
#include "libtorch/compat.h"
#include "memory/allocator.h"
#include "memory/stopwatch.h"
#include "plan/simulate/demand.h"
#include "plan/simulate/rebuilding.h"
#include "tape/evict.h"
#include "tape/fate.h"
#include "tape/generator.h"
#include "tape/runtime_view.h"
#include "tape/scope.h"
#include "tape/shortcut.h"
#include "tape/stack.h"
#include "tape/timeline.h"
#include "testing/hooks.h"

namespace retrace {
namespace {

// The storage of a tensor whose content nobody looks at.
const c10::Storage& no_content() {
  static const auto* const storage =
      new c10::Storage(c10::Storage::use_byte_size_t(), 0, cpu().allocator(), /*resizable=*/false);
  return *storage;
}

// While one lives, an operator is replayed: see Pressure::live_before_replay.
class InPassing {
 public:
  explicit InPassing(Pressure& pressure) : pressure_(pressure) { pressure_.live_before_replay = memory::live_bytes(); }
  ~InPassing() { pressure_.live_before_replay = 0; }
  InPassing(const InPassing&) = delete;
  InPassing& operator=(const InPassing&) = delete;

 private:
  Pressure& pressure_;
};

}  // namespace

// The replay as plan/simulate/rebuilding.h sees it.
class Replay::Rules {
 public:
  explicit Rules(Replay& replay) : replay_(replay), tape_(replay.tape_) {}

  Value& value(ValueId id) const { return tape_.value(id); }
  Op& op(OpId id) const { return tape_.op(id); }
  const Op& recorded(OpId id) const { return op(id); }

  bool has_op(OpId id) const { return tape_.find_op(id) != nullptr; }
  void mark(OpId id) { op(id).visited = replay_.serial_; }
  bool is_planned(OpId id) const { return id != kNone && op(id).visited == replay_.serial_; }
  OpId until() const { return replay_.segments_.until; }
  const std::vector<ValueId>& kept_until() const { return replay_.segments_.held; }

  void use(ValueId id) { replay_.use(id); }
  int64_t bytes(ValueId id) const { return value(id).bytes; }
  bool has_content(ValueId id, OpId by) const { return static_cast<bool>(tape_.content(id, &op(by))); }
  bool is_available(ValueId id, OpId by) const { return replay_.is_available(id, &op(by)); }
  bool is_ours_alone(ValueId id) const { return value(id).rebuilt && value(id).rebuilt.use_count() == 1; }
  bool is_rebuilt_each_time(ValueId id) const { return fate_of(tape_, id) == Fate::rebuild_each_time; }
  void free(ValueId id) {
    value(id).rebuilt = c10::Storage();
    ceases_source<Pending>(tape_, id);
  }

 private:
  Replay& replay_;
  Tape& tape_;
};

c10::Storage Replay::materialize(ValueId target) {
  if (c10::Storage available = tape_.content(target, nullptr)) return available;
  const Pause pause;
  const at::NoGradGuard no_grad;
  const memory::OwnerScope owner(memory::Owner::rebuilt);
  do {
    try {
      const Strict strict(tape_.pressure);
      return attempt(target);
    } catch (const OverBudget&) {
    }
  } while (give_up_waiting());
  return attempt(target);
}

// The operator that ran out of memory lacked what was held from the beginning for operators after it. Lets go of that:
// the next attempt begins further back, in the end from the roots, and has such values only when their turn comes.
// False if there was nothing to let go of.
bool Replay::give_up_waiting() {
  // What the attempt made goes first. So each attempt begins with less than the one before, and they come to an end.
  for (const ValueId id : made_) {
    if (tape_.value(id).rebuilt) Rules(*this).free(id);
  }
  bool gave_up = false;
  for (size_t i = progress_ + 1; i < order_.size(); ++i) {
    const Op* const op = tape_.find_op(order_[i]);
    if (!op) continue;
    for (const TensorArg& arg : op->args) {
      if (!arg.shape_only) gave_up |= Eviction(tape_).forget(arg.value);
    }
  }
  return gave_up;
}

c10::Storage Replay::attempt(ValueId target) {
  order_.clear();
  made_.clear();
  touched_.clear();
  scratch_.clear();
  segments_ = {};
  c10::Storage result;
  try {
    plan(target);
    choose_segment(target);
    Rules rules(*this);
    rebuilding::run_readers_first(rules, order_);
    for (progress_ = 0; progress_ < order_.size(); ++progress_) run(order_[progress_]);
    result = obtain(target, nullptr);
  } catch (...) {
    for (const ValueId v : touched_) tape_.value(v).uses = 0;
    for (const ValueId v : touched_) release(v);
    throw;
  }
  Rules rules(*this);
  rebuilding::used(rules, target);
  // Last: until now, values made from these were there in passing, and only now the counts say who waits for these.
  for (const ValueId v : segments_.held) rebuilding::used(rules, v);
  return result;
}

void Replay::use(ValueId id) {
  ++tape_.value(id).uses;
  touched_.push_back(id);
  inside_segment_ |= tape_.value(id).segment_start && tape_.value(id).rebuilt;
}

void Replay::plan(ValueId target) {
  serial_ = tape_.next_replay();
  Rules rules(*this);
  std::vector<ValueId> work;
  if (!is_available(target, nullptr)) rebuilding::find_ops(rules, target, order_, work);
  use(target);
}

bool Replay::is_available(ValueId id, const Op* wanted_by) {
  return tape_.value(id).held.is_stored() || static_cast<bool>(tape_.content(id, wanted_by));
}

// A value's content, loaded if it was put away; it then counts as rebuilt.
c10::Storage Replay::obtain(ValueId id, const Op* wanted_by) {
  c10::Storage there = tape_.content(id, wanted_by);
  if (there || !tape_.value(id).held.is_stored()) return there;
  const memory::Stopwatch watch;
  c10::Storage taken = tape_.value(id).held.take();
  const auto spent = watch.spent();
  if (tape_.timeline) tape_.timeline->track(taken);
  if (!tape_.counters.empty()) {
    count(tape_.counters.front().get(), &Counters::replay_nanoseconds, spent.count());
  }
  tape_.value(id).rebuilt = taken;
  tape_.was_rebuilt(id);
  made_.push_back(id);
  return taken;
}

void Replay::choose_segment(ValueId target) {
  if (inside_segment_) return;
  RuntimeView view(tape_);
  segments_ = choose_segments(view, tape_.segmenting, order_, target);
  for (const ValueId v : segments_.held) {
    tape_.value(v).segment_start = true;
    tape_.segmenting.starts.push_back(v);
    use(v);
  }
}

void Replay::run(OpId id) {
  Op& op = tape_.op(id);
  Rules rules(*this);
  const bool shortcut = rebuilding::may_take_shortcut(rules, id, op.shortcut_seconds);
  const InPassing in_passing(tape_.pressure);
  std::vector<c10::IValue> stack = arguments_of(id, !shortcut);
  if (shortcut) {
    call_shortcut(op, stack);
  } else {
    call(op, stack);
  }
  store(op, stack);
  stack.clear();
  scratch_.clear();
  rebuilding::inputs_used(rules, id);
}

// The arguments for running an operator again. Those that it writes are left out for a shortcut, which writes nothing,
// and where the operator does without them (Arguments::leaves_out_written).
std::vector<c10::IValue> Replay::arguments_of(OpId id, bool with_written) {
  const Op& op = tape_.op(id);
  scratch_.resize(op.args.size());
  for (size_t i = 0; i < op.args.size(); ++i) {
    const TensorArg& arg = op.args[i];
    if (arg.becomes != kNone && with_written && !arg.shape_only) scratch_[i] = scratch_for(id, arg);
  }
  return filled_stack(op, [&](size_t i) -> at::Tensor {
    const TensorArg& arg = op.args[i];
    if (arg.becomes != kNone && (arg.shape_only || !with_written)) return {};
    c10::Storage storage = scratch_[i];
    // The same content read through another argument sees what the operator writes, as it did in forward.
    for (size_t j = 0; !storage && j < op.args.size(); ++j) {
      if (op.args[j].value == arg.value) storage = scratch_[j];
    }
    if (!storage && arg.shape_only) storage = no_content();
    if (!storage) storage = obtain(arg.value, &op);
    return arg.geometry->over(std::move(storage));
  });
}

// A storage of our own with the content that an operator is about to write over.
c10::Storage Replay::scratch_for(OpId id, const TensorArg& arg) {
  const Op& op = tape_.op(id);
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.args[i].value == arg.value && scratch_[i]) return scratch_[i];
  }
  obtain(arg.value, &op);
  Rules rules(*this);
  if (!rebuilding::may_write_over(rules, id, arg.value)) return memory::copy_of(obtain(arg.value, &op));
  c10::Storage taken = tape_.value(arg.value).rebuilt;
  tape_.pressure.live_before_replay -= static_cast<int64_t>(taken.nbytes());
  rules.free(arg.value);
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
  const memory::Stopwatch watch;
  op.handle.redispatchBoxed(op.keys, &stack);
  const auto spent = watch.spent();
  count(op.counters, &Counters::ops_replayed);
  count(op.counters, &Counters::replay_nanoseconds, spent.count());
  return memory::seconds(spent);
}

void Replay::store(const Op& op, const std::vector<c10::IValue>& stack) {
  const Tensors tensors = returned_tensors(stack, stack.size());
  for (const FreshOutput& output : op.fresh) {
    const at::Tensor& tensor = tensors.at(static_cast<size_t>(output.position));
    set_rebuilt(op, output.value, tensor.storage());
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    // A shortcut writes nothing, so it has no scratch. What it would have written may be wanted by now, if making space
    // has let go of it.
    if (op.args[i].becomes != kNone && scratch_[i]) set_rebuilt(op, op.args[i].becomes, scratch_[i]);
  }
}

void Replay::set_rebuilt(const Op& op, ValueId id, const c10::Storage& storage) {
  Value& v = tape_.value(id);
  if (!rebuilding::is_taken(Rules(*this), id)) return;
  if (static_cast<int64_t>(storage.nbytes()) != v.bytes) {
    throw InternalError("[backward] op '" + op.name() + "': it made " + std::to_string(storage.nbytes()) +
                        " bytes when replayed and " + std::to_string(v.bytes) +
                        " in forward, so its result cannot be used. Keep it: retrace::selective({\"" + op.name() +
                        "\"}); and please report this.");
  }
  becomes_source<Pending>(tape_, id);
  v.rebuilt = storage;
  tape_.was_rebuilt(id);
  if (!tape_.budgeted_step) tape_.pressure.since_balance.rebuilt(RuntimeView(tape_), id);
  made_.push_back(id);
  tape_.used(id);
  if (tape_.timeline) tape_.timeline->track(storage);
  if (v.uses == 0) release(id);
}

void Replay::release(ValueId id) {
  Rules rules(*this);
  rebuilding::release(rules, id);
}

c10::Storage rebuild(Tape& tape, ValueId value) { return Replay(tape).materialize(value); }

}  // namespace retrace
