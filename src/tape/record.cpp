// The recorder: a boxed fallback below autograd that sees every operator of a recording thread.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "libtorch/compat.h"
#include "memory/stopwatch.h"
#include "policy/rules.h"
#include "tape/arguments.h"
#include "tape/budgeted_step.h"
#include "tape/fate.h"
#include "tape/generator.h"
#include "tape/no_grad_views.h"
#include "tape/scope.h"
#include "tape/shortcut.h"
#include "tape/stack.h"
#include "tape/timeline.h"
#include "tape/unrecorded.h"
#include "tape/writes.h"
#include "testing/hooks.h"

namespace retrace {
namespace {

using torch::jit::Stack;

// One operator on its way through the recorder.
class Recording {
 public:
  Recording(std::shared_ptr<Scope> scope, const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack)
      : scope_(std::move(scope)),
        traits_(traits_of(handle)),
        stack_(stack),
        op_(std::make_unique<Op>(handle, traits_)),
        arguments_(*scope_, *op_) {
    op_->keys = keys;
  }

  void run() {
    before();
    const memory::Stopwatch watch;
    detail::maybe_fail_operator(traits_.name.name.c_str());
    {
      const c10::impl::ExcludeDispatchKeyGuard exclude(compat::kRecordKey);
      op_->handle.redispatchBoxed(op_->keys, stack_);
    }
    op_->seconds = static_cast<float>(memory::seconds(watch.spent()));
    after();
  }

 private:
  void before() {
    const SharedTape::Lock lock(*scope_->tape);
    Tape& tape = *lock;
    begin_event(tape);
    tape.set_backward_at(kNone);
    if (tape.timeline) tape.timeline->op_begins(tape);
    arguments_.read(tape, *stack_);
    if (tape.timeline && arguments_.took_memory()) tape.timeline->op_was_prepared();
    if (!arguments_.replayable()) return;
    op_->settings = tape.note_settings();
    if (!traits_.draws && !traits_.may_draw) return;
    const int position = traits_.generator_argument;
    const c10::IValue given = position < 0 ? c10::IValue() : op_->stack[static_cast<size_t>(position)];
    op_->generator = snapshot(given.isGenerator() ? given.toGenerator() : default_generator());
  }

  void after() {
    outputs_ = returned_tensors(*stack_, op_->handle.schema().returns().size());
    std::optional<SharedTape::Lock> lock(*scope_->tape);
    Tape& tape = **lock;
    arguments_.operator_ran(tape);
    if (tape.timeline) tape.timeline->op_ran();
    find_fresh(tape);
    note_counters(tape);
    if (made_nothing()) {
      if (tape.timeline) tape.timeline->op_made_nothing();
      lock.reset();
      return note_no_grad_views(seen(), outputs_);
    }
    bool keep = false;
    if (scope_->policy.rules().looks_at_operators() && !detail::recompute_everything()) {
      lock.reset();
      keep = decide() == Decision::keep;  // may throw: nothing has been recorded yet
      lock.emplace(*scope_->tape);
    }
    add_to_tape(tape, keep);
  }

  bool made_nothing() const { return fresh_.empty() && written().empty(); }  // a view, a size, a number
  const Tensors& seen() const { return arguments_.seen(); }
  const Positions& written() const { return arguments_.written(); }

  void add_to_tape(Tape& tape, bool keep) {
    // In this very operator LibTorch has set its thread's number of threads, which it does once: it ran with both.
    if (arguments_.replayable() && Settings::threads_now() != tape.settings(op_->settings).threads)
      arguments_.cannot_be_repeated();
    meet_plan(tape);
    if (arguments_.reads_unheld_root(tape)) arguments_.cannot_be_repeated();
    const OpId id = arguments_.replayable() ? tape.next_op() : kNone;
    add_values(tape, id, keep);
    if (outputs_.empty()) {  // what it wrote is what there is to show for it
      for (const size_t i : written()) outputs_.push_back(seen()[i]);
    }
    if (has_shortcut(*op_, seen())) op_->shortcut_seconds = kShortcutShare * op_->seconds;
    if (tape.timeline) {
      op_->timeline_id = tape.timeline->op_made(tape, *op_, outputs_, arguments_.repeatable());
    }
    if (traits_.may_draw && op_->generator.defined() && !has_drawn(op_->generator, default_generator())) {
      op_->generator = at::Generator();
    }
    ++scope_->ops;
    scope_->ops_in_vain = at::GradMode::is_enabled() || writes_external(tape) ? 0 : scope_->ops_in_vain + 1;
    count_alone(scope_->counters.get(), &Counters::ops_recorded);
    if (!arguments_.replayable()) return;
    hold_roots(tape);
    track_cuts(tape);
    op_->counters = scope_->counters.get();
    tape.append(std::move(op_));
  }

  // Results in storages nobody has seen. One that somebody else holds already (an operator that returns what it cached)
  // may change without us, so it is treated as coming from outside.
  void find_fresh(Tape& tape) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& t = outputs_[i];
      if (!t.defined() || !understood(t) || tape.find(t) != kNone) continue;
      const auto shares = [&](const at::Tensor& o) {
        return o.defined() && o.has_storage() && o.storage().is_alias_of(t.storage());
      };
      if (std::any_of(outputs_.begin(), outputs_.begin() + static_cast<std::ptrdiff_t>(i), shares)) continue;
      const auto sharing = static_cast<size_t>(std::count_if(outputs_.begin(), outputs_.end(), shares));
      if (t.storage().use_count() > sharing || t.use_count() > 2) continue;
      fresh_.push_back(i);
    }
  }

  void note_counters(Tape& tape) {
    if (traits_.admits_views) return;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool is_fresh = std::find(fresh_.begin(), fresh_.end(), i) != fresh_.end();
      if (!is_fresh) tape.storages.add_counter(outputs_[i]);
    }
  }

  Decision decide() const {
    const Pause pause;
    std::vector<TensorInfo> inputs, outputs;
    for (const at::Tensor& t : seen()) inputs.push_back(describe(t));
    for (const at::Tensor& t : outputs_) {
      if (t.defined()) outputs.push_back(describe(t));
    }
    const auto& name = traits_.name;
    return scope_->policy.rules().decide({name.name, name.overload_name, scope_->ops, op_->seconds, inputs, outputs});
  }

  static TensorInfo describe(const at::Tensor& t) {
    return {{t.sizes().data(), t.sizes().size()}, static_cast<int64_t>(t.nbytes()), c10::toString(t.scalar_type())};
  }

  void add_values(Tape& tape, OpId id, bool keep) {
    size_t result = 0;
    for (const size_t i : fresh_) {
      const ValueId v = tape.add_fresh(outputs_[i], id);
      note_wish(tape, v, result++, keep);
      tape.value(v).scratch = static_cast<int>(i) == traits_.scratch_output;
      tape.value(v).unwritten = traits_.uninitialised && outputs_[i].numel() > 0;
      // What a factory made is often written element by element: then a sample would not do.
      if (!tape.value(v).unwritten) mark_made(tape, v, outputs_[i], reads_nothing());
      op_->fresh.push_back({static_cast<int32_t>(i), v});
    }
    for (auto& [before, copy] : arguments_.take_copies()) {
      tape.hold_copy(before, std::move(copy));
      if (tape.timeline) tape.timeline->copied(before, tape.value(before).bytes);
    }
    for (const size_t i : written()) {
      TensorArg& arg = op_->args[i];
      const auto same = std::find_if(written().begin(), written().end(), [&](size_t j) {
        return op_->args[j].value == arg.value && op_->args[j].becomes != kNone;
      });
      const OpId recipe = arg.shape_only ? kNone : id;  // of one that it is run again without, there is none
      arg.becomes = same == written().end() ? overwrite(tape, arg, seen()[i], recipe) : op_->args[*same].becomes;
      note_wish(tape, arg.becomes, result++, keep);
      if (!traits_.collective) mark_made(tape, arg.becomes, seen()[i], false);
    }
  }

  static void mark_made(Tape& tape, ValueId id, const at::Tensor& tensor, bool whole) {
    if (!tape.marking.may_forget) return;
    mark(tape.value(id), tensor.storage(), whole || tape.marking.whole);
    tape.value(id).dense =
        tensor.is_non_overlapping_and_dense() && tensor.nbytes() == tensor.storage().nbytes() && !tensor.is_neg();
  }

  // Is this the operator the plan expects here? Is it one we have met before?
  void meet_plan(Tape& tape) {
    bool is_new = false, plan_is_new = false;
    if (tape.timeline) {
      c10::SmallVector<int64_t, 4> bytes;
      for (const size_t i : fresh_) bytes.push_back(static_cast<int64_t>(outputs_[i].storage().nbytes()));
      const size_t index = tape.timeline->ops_met();
      const uint64_t hash = tape.timeline->add_hash(tape, *op_, bytes);
      tape.marking.place = hash;
      const uint64_t kind = plan::kind_of(traits_.name_hash, fresh_.size());
      if (tape.budgeted_step) tape.budgeted_step->meets_op(index, hash, kind);
      const bool verifies = tape.known && tape.known->verifies();
      is_new = verifies && !tape.timeline->follows() && tape.known->is_new(hash, kind);
      plan_is_new = verifies && tape.budgeted_step && tape.budgeted_step->plan_is_new();
    }
    tape.marking.lossy |= tape.budgeted_step && tape.budgeted_step->is_lossy();
    tape.marking.whole = scope_->verify || is_new;
    tape.marking.verifies = tape.marking.whole || plan_is_new;
  }

  bool writes_external(const Tape& tape) const {
    return std::any_of(written().begin(), written().end(),
                       [&](size_t i) { return tape.value(op_->args[i].value).external; });
  }

  bool reads_nothing() const {
    return std::all_of(op_->args.begin(), op_->args.end(), [](const TensorArg& arg) { return arg.shape_only; });
  }

  static ValueId overwrite(Tape& tape, const TensorArg& arg, const at::Tensor& tensor, OpId id) {
    if (!tape.value(arg.value).held.is_copy()) tape.lose(arg.value);
    const ValueId after = tape.add_written(tensor, id);
    const Value& before = tape.value(arg.value);
    if (!before.unwritten) return after;
    // Memory that only this operator and its like have written is as good as computed; count how far they got.
    Value& v = tape.value(after);
    const auto [begin, end] = arg.geometry->dense_byte_range();
    const bool joins =
        before.written_begin == before.written_end || (begin <= before.written_end && end >= before.written_begin);
    v.written_begin =
        joins && before.written_begin != before.written_end ? std::min(begin, before.written_begin) : begin;
    v.written_end = joins ? std::max(end, before.written_end) : end;
    v.unwritten = !(v.written_begin == 0 && v.written_end >= v.bytes);
    return after;
  }

  // Roots and kept values must outlive the program's own references to them, or this op could not run again.
  void hold_roots(Tape& tape) {
    for (size_t i = 0; i < op_->args.size(); ++i) {
      const TensorArg& arg = op_->args[i];
      if (arg.shape_only || arg.becomes != kNone) continue;
      if (!arguments_.is_written(arg.value) && is_held_when_read(fate_of(tape, arg.value)))
        tape.hold(arg.value, seen()[i].storage());
    }
  }

  void track_cuts(Tape& tape) {
    for (const auto& scope : scopes_of_this_event()) {
      if (scope->cuts) scope->cuts->op_ran(tape, *op_);
    }
  }

  std::shared_ptr<Scope> scope_;
  const OpTraits& traits_;
  Stack* stack_;
  std::unique_ptr<Op> op_;
  Arguments arguments_;
  Tensors outputs_;
  Positions fresh_;  // positions in outputs_
};

// Runs instead of an operator on a recording thread, after autograd and before the backend.
void record(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, compat::kRecordKey);
  if (auto scope = current_scope()) {
    if (run_unrecorded(*scope, handle, below, *stack)) return;
    return Recording(std::move(scope), handle, below, stack).run();
  }
  const c10::impl::ExcludeDispatchKeyGuard exclude(compat::kRecordKey);
  handle.redispatchBoxed(below, stack);
}

}  // namespace

void link_recorder() {}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&record>()); }

}  // namespace retrace
