#include "tape/arguments.h"

#include <algorithm>

#include "memory/allocator.h"
#include "policy/overwritten_root.h"
#include "tape/budgeted_step.h"
#include "tape/fate.h"
#include "tape/timeline.h"
#include "tape/writes.h"

namespace retrace {
namespace {

bool covers_storage(const at::Tensor& t) {
  return t.nbytes() == t.storage().nbytes() && t.is_non_overlapping_and_dense();
}

// Instead of what was forgotten and needs the old content, if that takes more. Where nothing was forgotten and there is
// a budget, if it fits, and nothing is evicted for it that could then be rebuilt from nothing else.
bool may_copy(Tape& tape, ValueId id) {
  const Value& before = tape.value(id);
  if (before.alive > 0) return before.bytes <= bytes_to_secure(tape, id);
  if (!tape.budgeted_step) return true;
  const int64_t wanted_bytes = memory::live_bytes() + before.bytes;
  if (wanted_bytes <= tape.budgeted_step->budget_bytes()) return true;
  if (before.reach > 0) return false;
  try {
    const Strict strict(tape.pressure);
    tape.budgeted_step->make_space(before.bytes);
    memory::drop_claim();
  } catch (const OverBudget&) {
    return false;
  }
  return true;
}

}  // namespace

Arguments::~Arguments() {
  if (needed_.empty()) return;
  const SharedTape::Entry entry(*scope_.tape);
  Tape& tape = *entry;
  for (const Needed& needed : needed_) {
    tape.recipe_not_needed(needed.value);
    if (needed.held) tape.hold(needed.value, needed.held);  // the operator threw
  }
}

void Arguments::read(Tape& tape, const std::vector<c10::IValue>& stack) {
  const size_t count = traits_.writes.size();
  const c10::IValue* const arguments = stack.data() + (stack.size() - count);
  silent_writes_ = traits_.silent_when < 0 || arguments[traits_.silent_when].toBool();
  for (size_t i = 0; i < count; ++i) read_argument(tape, arguments[i], i);
  if (may_write_anything(tape)) suspect_all();
  const bool leaves_out = leaves_out_written(tape);
  for (const size_t i : written_) op_.args[i].shape_only = leaves_out;
  if (reads_unheld_root(tape) && tape.budgeted_step->expects(op_, tape.timeline->ops_met())) repeatable_ = false;
  for (const size_t i : written_) {
    if (!leaves_out) prepare_write(tape, op_.args[i], seen_[i]);
  }
}

bool Arguments::is_written(ValueId value) const {
  return std::any_of(written_.begin(), written_.end(), [&](size_t i) { return op_.args[i].value == value; });
}

bool Arguments::reads_unheld_root(const Tape& tape) const {
  return std::any_of(roots_read_.begin(), roots_read_.end(), [&](size_t i) {
    return !op_.args[i].shape_only && fate_of(tape, op_.args[i].value) == Fate::unheld_root;
  });
}

// A collective writes what it is given, and may go on with it after it has returned. What else is not LibTorch's own,
// cannot be run again and does not say what it writes, may have written anything.
bool Arguments::may_write_anything(const Tape& tape) const {
  return tape.marking.may_forget && (traits_.collective || (!repeatable_ && traits_.silent_about_writes));
}

void Arguments::suspect_all() {
  repeatable_ = false;
  written_.clear();
  for (size_t i = 0; i < op_.args.size(); ++i) written_.push_back(i);
}

bool Arguments::writes(size_t slot) const {
  if (traits_.writes[slot]) return true;
  if (slot < 64 && (traits_.found_writing.load(std::memory_order_relaxed) >> slot & 1) != 0) return true;
  const auto& silent = traits_.silent_writes;
  return silent_writes_ && std::find(silent.begin(), silent.end(), static_cast<int>(slot)) != silent.end();
}

void Arguments::read_argument(Tape& tape, const c10::IValue& v, size_t slot) {
  op_.stack.emplace_back();
  if (v.isTensor()) return read_tensor(tape, v.toTensor(), slot, kNone);
  if (is_list_of_tensors(v)) {
    const auto size = static_cast<int32_t>(v.toListRef().size());
    op_.lists.push_back({static_cast<int32_t>(slot), size, v.isOptionalTensorList()});
  } else if (is_plain(v)) {
    // A list somebody else holds could change after we looked.
    op_.stack.back() = v.isList() && v.use_count() > 1 ? v.deepcopy() : v;
    return;
  } else {
    repeatable_ = false;
    if (!traits_.collective && !traits_.silent_about_writes) return;
  }
  visit_tensors(v, [&](const at::Tensor& t, int32_t element) { read_tensor(tape, t, slot, element); });
}

void Arguments::read_tensor(Tape& tape, const at::Tensor& tensor, size_t slot, int32_t element) {
  // A number in the code is part of the operator, like an int.
  if (!tensor.defined() || (element == kNone && tensor.unsafeGetTensorImpl()->is_wrapped_number())) {
    if (element == kNone) op_.stack.back() = tensor;
    return;
  }
  if (!understood(tensor)) {
    repeatable_ = false;
    return;
  }
  const bool written = writes(slot);
  TensorArg& arg = op_.args.emplace_back();
  if (written) written_.push_back(op_.args.size() - 1);
  arg.shape_only = traits_.shape_only && slot == 0;
  const bool replaces = written && traits_.overwrites && covers_storage(tensor);
  const bool looks = !arg.shape_only && !traits_.view && !replaces;
  const bool only_reads = !written && !traits_.silent_about_writes;
  arg.value = !looks ? tape.value_of(tensor) : only_reads ? look_at_read(tape, tensor) : look_at(tape, tensor);
  arg.slot = static_cast<int32_t>(slot);
  arg.element = element;
  arg.geometry = tape.geometries.find_or_add(tensor);
  arg.has_gradient = tensor.requires_grad();
  tape.used(arg.value);
  const Value& v = tape.value(arg.value);
  if (looks && v.unwritten && !(written && traits_.overwrites)) {
    tape.make_root(arg.value);  // somebody wrote it with a pointer
    tape.value(arg.value).unwritten = false;
  }
  if (looks && v.fleeting) repeatable_ = false;
  if (looks && tape.is_root(v)) roots_read_.push_back(op_.args.size() - 1);
  seen_.push_back(tensor);
}

// A batch norm's statistics: it adds to them what it found in a batch, and its results depend on that alone. So it is
// run again without them, without both or with both: LibTorch 2 wants it so.
bool Arguments::leaves_out_written(const Tape& tape) const {
  return traits_.batch_norm && std::all_of(written_.begin(), written_.end(), [&](size_t i) {
           const ValueId id = op_.args[i].value;
           const auto reads = [&](const TensorArg& other) {
             return other.value == id && !writes(static_cast<size_t>(other.slot));
           };
           return tape.is_root(tape.value(id)) && !tape.value(id).consumed &&
                  std::none_of(op_.args.begin(), op_.args.end(), reads);
         });
}

bool Arguments::copy_may_pay(const Value& before) const {
  int64_t read_bytes = 0;
  for (const TensorArg& arg : op_.args) {
    if (!writes(static_cast<size_t>(arg.slot))) read_bytes += arg.geometry->bytes();
  }
  const bool is_needed = before.alive > 0 || before.reach > 0;
  return retrace::copy_may_pay(is_needed, traits_.only_writes, read_bytes, before.bytes);
}

// The content that is about to be overwritten must stay available to whoever is rebuilt from it, this op included.
void Arguments::prepare_write(Tape& tape, TensorArg& arg, const at::Tensor& seen) {
  const Value& v = tape.value(arg.value);
  if (!(replayable() || v.consumed) || v.held.is_copy()) return;
  if (!tape.is_root(v)) return need_recipe(tape, arg.value);
  if (!copy_may_pay(v)) {
    repeatable_ = false;
  } else if (v.bytes <= kSmallRootBytes && may_copy(tape, arg.value)) {
    const memory::OwnerScope owner(memory::Owner::kept);
    copies_.emplace_back(arg.value, memory::copy_of(seen.storage()));
    took_memory_ = true;
  } else {
    repeatable_ = false;
    secure_dependents(tape, arg.value);
    took_memory_ = true;
  }
}

// From now on it can only be rebuilt. An allocation while the operator runs must not make the tape think otherwise.
void Arguments::need_recipe(Tape& tape, ValueId id) {
  const c10::Storage held = tape.value(id).held.storage();
  tape.let_go(id);
  tape.need_recipe(id);
  needed_.push_back({id, held});
}

void Arguments::operator_ran(Tape& tape) {
  for (Needed& needed : needed_) needed.held = c10::Storage();
  if (!traits_.silent_about_writes || !tape.marking.may_forget) return;
  for (size_t i = 0; i < op_.args.size(); ++i) {
    const TensorArg& arg = op_.args[i];
    if (arg.shape_only || std::find(written_.begin(), written_.end(), i) != written_.end()) continue;
    if (is_as_marked(tape.value(arg.value), seen_[i].storage())) continue;
    repeatable_ = false;
    written_.push_back(i);
    if (arg.slot < 64) traits_.found_writing.fetch_or(uint64_t{1} << arg.slot, std::memory_order_relaxed);
  }
}

}  // namespace retrace
