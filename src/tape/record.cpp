// The recorder: a boxed fallback below autograd that sees every operator of a recording thread.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>

#include "libtorch/compat.h"
#include "memory/allocator.h"
#include "policy/rules.h"
#include "tape/budgeted_step.h"
#include "tape/generator.h"
#include "tape/no_grad_views.h"
#include "tape/scope.h"
#include "tape/shortcut.h"
#include "tape/timeline.h"
#include "testing/hooks.h"

namespace retrace {
namespace {

using torch::jit::Stack;

// A root this small is copied before an operator overwrites it; a larger one is not, and what depends on it is kept.
constexpr int64_t kSmallRootBytes = 64 * 1024;

// Whether an argument that is no tensor can be stored and passed again: it holds no tensor we could not see.
bool is_plain(const c10::IValue& v) {
  return v.isNone() || v.isInt() || v.isDouble() || v.isBool() || v.isComplexDouble() || v.isString() || v.isDevice() ||
         v.isIntList() || v.isDoubleList() || v.isBoolList() || v.isGenerator() || v.isScalar() ||
         (v.isList() && v.toListRef().empty()) ||
         (v.isList() && std::all_of(v.toListRef().begin(), v.toListRef().end(), [](const c10::IValue& e) {
            return e.isNone() || e.isInt() || e.isDouble() || e.isBool() || e.isString() || e.isScalar();
          }));
}

// The tensors inside an argument that is neither a tensor nor a list of them: a list of lists, a tuple, a dictionary.
void find_tensors(const c10::IValue& v, std::vector<at::Tensor>& found) {
  if (v.isTensor()) {
    found.push_back(v.toTensor());
  } else if (v.isList()) {
    for (const c10::IValue& e : v.toListRef()) find_tensors(e, found);
  } else if (v.isTuple()) {
    for (const c10::IValue& e : v.toTupleRef().elements()) find_tensors(e, found);
  } else if (v.isGenericDict()) {
    for (const auto& entry : v.toGenericDict()) find_tensors(entry.value(), found);
  }
}

// One operator on its way through the recorder.
class Recording {
 public:
  Recording(std::shared_ptr<Scope> scope, const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack)
      : scope_(std::move(scope)),
        tape_(*scope_->tape),
        traits_(traits_of(handle)),
        stack_(stack),
        arguments_(handle.schema().arguments().size()),
        op_(std::make_unique<Op>(handle, traits_)),
        repeatable_(!traits_.opaque),
        replayable_(scope_->may_drop && repeatable_) {
    op_->keys = keys;
  }

  void run() {
    before();
    const auto start = std::chrono::steady_clock::now();
    detail::maybe_fail_operator(traits_.name.name.c_str());
    {
      const c10::impl::ExcludeDispatchKeyGuard exclude(compat::kRecordKey);
      op_->handle.redispatchBoxed(op_->keys, stack_);
    }
    op_->seconds = std::chrono::duration<float>(std::chrono::steady_clock::now() - start).count();
    after();
  }

  ~Recording() {
    if (needed_.empty()) return;
    const Tape::Lock lock(tape_);
    for (const Needed& needed : needed_) {
      change_need<Alive>(tape_, needed.value, -1);
      if (needed.held) tape_.hold(needed.value, needed.held);  // the operator threw
    }
  }

 private:
  void before() {
    const Tape::Lock lock(tape_);
    tape_.begin_event();
    for (size_t i = 0; i < arguments_; ++i) read_argument(i);
    if (may_write_anything()) suspect_all();
    for (const size_t i : written_) prepare_write(op_->args[i], seen_[i]);
    if (tape_.timeline) tape_.timeline->op_begins(tape_);
    if (replayable_) {
      op_->settings = tape_.note_settings();
      snapshot_generator();
    }
  }

  // A collective writes what it is given, and may go on with it after it has returned. What else is not LibTorch's own, cannot
  // be run again and does not say what it writes, may have written anything.
  bool may_write_anything() const {
    return tape_.may_forget && (traits_.collective || (!repeatable_ && traits_.silent_about_writes));
  }

  void suspect_all() {
    repeatable_ = replayable_ = false;
    written_.clear();
    for (size_t i = 0; i < op_->args.size(); ++i) written_.push_back(i);
  }

  const c10::IValue& argument(size_t i) const { return (*stack_)[stack_->size() - arguments_ + i]; }

  bool writes(size_t i) const {
    if (traits_.writes[i] || (i < 64 && (traits_.found_writing.load(std::memory_order_relaxed) >> i & 1) != 0))
      return true;
    const auto& silent = traits_.silent_writes;
    if (std::find(silent.begin(), silent.end(), static_cast<int>(i)) == silent.end()) return false;
    return traits_.silent_when < 0 || argument(static_cast<size_t>(traits_.silent_when)).toBool();
  }

  void read_argument(size_t i) {
    const c10::IValue& v = argument(i);
    op_->stack.emplace_back();
    if (v.isTensor()) {
      read_tensor(v.toTensor(), i, kNone);
    } else if (v.isTensorList()) {
      const auto list = v.toTensorVector();
      op_->lists.push_back({static_cast<int32_t>(i), static_cast<int32_t>(list.size()), false});
      for (size_t e = 0; e < list.size(); ++e) read_tensor(list[e], i, static_cast<int32_t>(e));
    } else if (v.isOptionalTensorList()) {
      const auto list = v.toOptionalTensorVector();
      op_->lists.push_back({static_cast<int32_t>(i), static_cast<int32_t>(list.size()), true});
      for (size_t e = 0; e < list.size(); ++e) {
        if (list[e]) read_tensor(*list[e], i, static_cast<int32_t>(e));
      }
    } else if (is_plain(v)) {
      // A list somebody else holds could change after we looked.
      op_->stack.back() = v.isList() && v.use_count() > 1 ? v.deepcopy() : v;
    } else {
      repeatable_ = replayable_ = false;
      std::vector<at::Tensor> inside;
      if (traits_.collective || traits_.silent_about_writes) find_tensors(v, inside);
      for (const at::Tensor& tensor : inside) read_tensor(tensor, i, 0);
    }
  }

  void read_tensor(const at::Tensor& tensor, size_t i, int32_t element) {
    if (!tensor.defined()) {
      if (element == kNone) op_->stack.back() = tensor;
      return;
    }
    if (element == kNone && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      op_->stack.back() = tensor;  // a number in the code: part of the operator, like an int
      return;
    }
    const bool written = writes(i);
    if (!understood(tensor)) {
      repeatable_ = replayable_ = false;
      return;
    }
    TensorArg arg;
    arg.shape_only = traits_.shape_only && i == 0;
    const bool replaces = written && traits_.overwrites && covers_storage(tensor);
    const bool looks = !arg.shape_only && !traits_.view && !replaces;
    arg.value = looks ? tape_.look_at(tensor) : tape_.value_of(tensor);
    arg.slot = static_cast<int32_t>(i);
    arg.element = element;
    arg.geometry = Geometry::of(tensor);
    tape_.used(arg.value);
    if (written) written_.push_back(op_->args.size());
    const Value& v = tape_.value(arg.value);
    const bool unheld = tape_.budgeted_step && tape_.is_root(v) && !tape_.budgeted_step->holds_root(arg.value);
    if (looks && (v.fleeting || unheld)) repeatable_ = replayable_ = false;
    if (v.unwritten && !arg.shape_only && !(written && traits_.overwrites)) {
      tape_.make_root(arg.value);  // somebody wrote it with a pointer
      tape_.value(arg.value).unwritten = false;
    }
    op_->args.push_back(std::move(arg));
    seen_.push_back(tensor);
  }

  static bool covers_storage(const at::Tensor& t) {
    return t.nbytes() == t.storage().nbytes() && t.is_non_overlapping_and_dense();
  }

  // It only writes over something, and nothing that was saved is to be rebuilt from what was there: an optimizer's update,
  // say. The new content is where the program has it anyway, so a copy of the old one to rebuild it from would be memory for
  // nothing.
  bool is_update(const Value& before) const { return traits_.only_writes && before.alive == 0 && before.reach == 0; }

  // Nothing saved needs the old content yet: then a copy must not break the budget.
  bool may_copy(const Value& before) const {
    if (!tape_.budgeted_step || before.alive > 0 || before.reach > 0) return true;
    const int64_t wanted_bytes = memory::live_bytes() + before.bytes;
    if (wanted_bytes <= tape_.budgeted_step->budget_bytes()) return true;
    try {
      const Tape::Strict strict(tape_);
      tape_.budgeted_step->make_space(wanted_bytes);
    } catch (const OverBudget&) {
      return false;
    }
    return true;
  }

  // The content that is about to be overwritten must stay available to whoever is rebuilt from it, this op included.
  void prepare_write(const TensorArg& arg, const at::Tensor& seen) {
    const Value& v = tape_.value(arg.value);
    if (!(replayable_ || v.consumed) || v.held.is_copy()) return;
    if (!tape_.is_root(v)) return need_recipe(arg.value);
    if (is_update(v) || !may_copy(v)) {
      repeatable_ = replayable_ = false;
    } else if (v.bytes <= kSmallRootBytes) {
      const memory::OwnerScope owner(memory::Owner::kept);
      copies_.emplace_back(arg.value, memory::copy_of(seen.storage()));
    } else {
      repeatable_ = replayable_ = false;
      tape_.secure_dependents(arg.value);
    }
  }

  // From now on it can only be rebuilt. An allocation while the operator runs must not make the tape think otherwise.
  void need_recipe(ValueId id) {
    const c10::Storage held = tape_.value(id).held.storage();
    tape_.let_go(id);
    change_need<Alive>(tape_, id, 1);
    needed_.push_back({id, held});
  }

  void snapshot_generator() {
    if (!traits_.draws && !traits_.may_draw) return;
    const int position = traits_.generator_argument;
    const bool given = position >= 0 && argument(static_cast<size_t>(position)).isGenerator();
    op_->generator = snapshot(given ? argument(static_cast<size_t>(position)).toGenerator() : default_generator());
  }

  void after() {
    const size_t returns = op_->handle.schema().returns().size();
    returned_tensors(returns);
    {
      const Tape::Lock lock(tape_);
      for (Needed& needed : needed_) needed.held = c10::Storage();
      find_silent_writes();
      if (tape_.timeline) tape_.timeline->op_ran();
      find_fresh();
      note_counters();
      if (tape_.timeline && fresh_.empty() && written_.empty()) tape_.timeline->op_made_nothing();
    }
    if (fresh_.empty() && written_.empty()) {  // a view, a size, a number: nothing to rebuild
      note_views();
      return;
    }
    const bool keep = decide() == Decision::keep;  // may throw: nothing has been recorded yet
    const Tape::Lock lock(tape_);
    // In this very operator LibTorch has set its thread's number of threads, which it does once: it ran with both.
    if (replayable_ && Settings::threads_now() != tape_.settings(op_->settings).threads)
      repeatable_ = replayable_ = false;
    const OpId id = replayable_ ? tape_.next_op() : kNone;
    meet_plan();
    add_values(id, keep);
    if (outputs_.empty()) results_are_writes();
    if (has_shortcut(*op_, seen_)) op_->shortcut_seconds = kShortcutShare * op_->seconds;
    if (tape_.timeline) op_->timeline_id = tape_.timeline->op_made(tape_, *op_, outputs_, repeatable_);
    if (traits_.may_draw && op_->generator.defined() && !has_drawn(op_->generator, default_generator())) {
      op_->generator = at::Generator();
    }
    ++scope_->ops;
    count(scope_->counters, &Counters::ops_recorded);
    if (!replayable_) return;
    hold_roots();
    track_cuts();
    op_->counters = scope_->counters;
    tape_.append(std::move(op_));
  }

  // An operator from elsewhere that wrote an argument and had not said so. It cannot be run again this time, since what was
  // there before is gone; from now on it counts as one that writes in place.
  void find_silent_writes() {
    if (!traits_.silent_about_writes || !tape_.may_forget) return;
    for (size_t i = 0; i < op_->args.size(); ++i) {
      const TensorArg& arg = op_->args[i];
      if (arg.shape_only || std::find(written_.begin(), written_.end(), i) != written_.end()) continue;
      if (tape_.is_as_marked(arg.value, seen_[i].storage())) continue;
      repeatable_ = replayable_ = false;
      written_.push_back(i);
      if (arg.slot < 64) traits_.found_writing.fetch_or(uint64_t{1} << arg.slot, std::memory_order_relaxed);
    }
  }

  void returned_tensors(size_t returns) {
    for (size_t i = stack_->size() - returns; i < stack_->size(); ++i) {
      const c10::IValue& v = (*stack_)[i];
      if (v.isTensor()) {
        outputs_.push_back(v.toTensor());
      } else if (v.isTensorList()) {
        for (const at::Tensor& t : v.toTensorVector()) outputs_.push_back(t);
      }
    }
  }

  // It returned nothing: what it wrote is what there is to show for it.
  void results_are_writes() {
    for (const size_t i : written_) outputs_.push_back(seen_[i]);
  }

  // Results in storages nobody has seen. One that somebody else holds already (an operator that returns what it cached)
  // may change without us, so it is treated as coming from outside.
  void find_fresh() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& t = outputs_[i];
      if (!t.defined() || !understood(t) || tape_.find(t) != kNone) continue;
      const auto shares = [&](const at::Tensor& o) {
        return o.defined() && o.has_storage() && o.storage().is_alias_of(t.storage());
      };
      if (std::any_of(outputs_.begin(), outputs_.begin() + static_cast<std::ptrdiff_t>(i), shares)) continue;
      const auto sharing = static_cast<size_t>(std::count_if(outputs_.begin(), outputs_.end(), shares));
      if (t.storage().use_count() > sharing || t.use_count() > 2) continue;
      fresh_.push_back(i);
    }
  }

  // A view that the schema does not admit to (_unsafe_view, unsafe_split) has a version counter of its own: writes
  // through it do not show in the others.
  void note_counters() {
    const auto& returns = op_->handle.schema().returns();
    const bool admits =
        std::all_of(returns.begin(), returns.end(), [](const c10::Argument& r) { return r.alias_info() != nullptr; });
    if (admits) return;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& t = outputs_[i];
      const bool is_fresh = std::find(fresh_.begin(), fresh_.end(), i) != fresh_.end();
      if (t.defined() && understood(t) && !is_fresh) tape_.add_counter(t);
    }
  }

  void note_views() const {
    if (at::GradMode::is_enabled()) return;
    if (std::none_of(seen_.begin(), seen_.end(), [](const at::Tensor& t) { return t.requires_grad(); })) return;
    for (const at::Tensor& t : outputs_) {
      if (t.defined()) note_no_grad_view(t);
    }
  }

  Decision decide() const {
    const PolicyRules& rules = scope_->policy.rules();
    if (!rules.looks_at_operators() || detail::recompute_everything()) return Decision::recompute;
    const Pause pause;
    std::vector<TensorInfo> inputs, outputs;
    for (const at::Tensor& t : seen_) inputs.push_back(describe(t));
    for (const at::Tensor& t : outputs_) {
      if (t.defined()) outputs.push_back(describe(t));
    }
    const auto& name = traits_.name;
    return rules.decide({name.name, name.overload_name, scope_->ops, op_->seconds, inputs, outputs});
  }

  static TensorInfo describe(const at::Tensor& t) {
    return {{t.sizes().data(), t.sizes().size()}, static_cast<int64_t>(t.nbytes()), c10::toString(t.scalar_type())};
  }

  void add_values(OpId id, bool keep) {
    for (const size_t i : fresh_) {
      const ValueId v = tape_.add_fresh(outputs_[i], id);
      choose(v, keep);
      tape_.value(v).scratch = static_cast<int>(i) == traits_.scratch_output;
      tape_.value(v).unwritten = traits_.uninitialised && outputs_[i].numel() > 0;
      // What a factory made is often written element by element: then a sample would not do.
      if (!tape_.value(v).unwritten) mark(v, outputs_[i], reads_nothing());
      op_->fresh.push_back({static_cast<int32_t>(i), v});
    }
    for (auto& [before, copy] : copies_) {
      tape_.hold_copy(before, std::move(copy));
      if (tape_.timeline) tape_.timeline->copied(before, tape_.value(before).bytes);
    }
    for (const size_t i : written_) {
      TensorArg& arg = op_->args[i];
      const auto same = std::find_if(written_.begin(), written_.end(), [&](size_t j) {
        return op_->args[j].value == arg.value && op_->args[j].becomes != kNone;
      });
      arg.becomes = same == written_.end() ? overwrite(arg, seen_[i], id) : op_->args[*same].becomes;
      choose(arg.becomes, keep);
      if (!traits_.collective) mark(arg.becomes, seen_[i], false);
    }
  }

  void mark(ValueId id, const at::Tensor& tensor, bool whole) {
    if (!tape_.may_forget) return;
    tape_.mark(id, tensor.storage(), whole || tape_.verifies());
    tape_.value(id).dense =
        tensor.is_non_overlapping_and_dense() && tensor.nbytes() == tensor.storage().nbytes() && !tensor.is_neg();
  }

  // Is this the operator the plan expects here? Is it one we have met before?
  void meet_plan() {
    bool is_new = false;
    if (tape_.timeline) {
      std::vector<int64_t> bytes;
      for (const size_t i : fresh_) bytes.push_back(static_cast<int64_t>(outputs_[i].storage().nbytes()));
      const size_t index = tape_.timeline->prefix_hashes().size();
      const uint64_t hash = tape_.timeline->add_hash(*op_, bytes);
      tape_.begin_places(hash);
      if (tape_.budgeted_step) tape_.budgeted_step->meets_op(index, hash);
      is_new = tape_.known && tape_.known->verifies() &&
               (tape_.known->is_new(hash) || (tape_.budgeted_step && tape_.budgeted_step->plan_is_new()));
    }
    tape_.lossy |= tape_.budgeted_step && tape_.budgeted_step->is_lossy();
    tape_.set_verifies(scope_->verify || is_new);
  }

  void choose(ValueId id, bool keep) {
    Value& v = tape_.value(id);
    if (!tape_.budgeted_step) {
      v.keep |= keep;
    } else if (tape_.budgeted_step->follows_plan()) {
      const plan::Choice choice = tape_.budgeted_step->choice(id);
      v.keep = choice.holds();
      v.kind = tape_.budgeted_step->kind(id);
    }
  }

  bool reads_nothing() const {
    return std::all_of(op_->args.begin(), op_->args.end(), [](const TensorArg& arg) { return arg.shape_only; });
  }

  ValueId overwrite(const TensorArg& arg, const at::Tensor& tensor, OpId id) {
    if (!tape_.value(arg.value).held.is_copy()) tape_.lose(arg.value);
    const ValueId after = tape_.add_written(tensor, id);
    const Value& before = tape_.value(arg.value);
    if (!before.unwritten) return after;
    // Memory that only this operator and its like have written is as good as computed; count how far they got.
    Value& v = tape_.value(after);
    const auto [begin, end] = arg.geometry.dense_byte_range();
    const bool joins =
        before.written_begin == before.written_end || (begin <= before.written_end && end >= before.written_begin);
    v.written_begin =
        joins && before.written_begin != before.written_end ? std::min(begin, before.written_begin) : begin;
    v.written_end = joins ? std::max(end, before.written_end) : end;
    v.unwritten = !(v.written_begin == 0 && v.written_end >= v.bytes);
    return after;
  }

  // Roots and kept values must outlive the program's own references to them, or this op could not run again.
  void hold_roots() {
    for (size_t i = 0; i < op_->args.size(); ++i) {
      const TensorArg& arg = op_->args[i];
      if (arg.shape_only || arg.becomes != kNone) continue;
      const Value& v = tape_.value(arg.value);
      const bool overwritten =
          std::any_of(written_.begin(), written_.end(), [&](size_t j) { return op_->args[j].value == arg.value; });
      if (!overwritten && (tape_.is_root(v) || v.keep)) tape_.hold(arg.value, seen_[i].storage());
    }
  }

  void track_cuts() {
    for (const auto& scope : open_scopes()) {
      if (!scope->cuts) continue;
      for (size_t i = 0; i < seen_.size(); ++i) {
        const TensorArg& arg = op_->args[i];
        if (!arg.shape_only && seen_[i].requires_grad()) scope->cuts->read(tape_, arg.value);
      }
      if (!op_->fresh.empty()) {
        scope->cuts->made(tape_, op_->fresh.front().value, kNone);
      } else {
        const TensorArg& arg = op_->args[written_.front()];
        scope->cuts->made(tape_, arg.becomes, arg.value);
      }
    }
  }

  std::shared_ptr<Scope> scope_;
  Tape& tape_;
  const OpTraits& traits_;
  Stack* stack_;
  const size_t arguments_;
  std::unique_ptr<Op> op_;
  bool repeatable_;               // could be run again, as far as we understand it
  bool replayable_;               // and the policy may want to
  std::vector<at::Tensor> seen_;  // parallel to op_->args
  std::vector<size_t> written_;   // positions in op_->args
  std::vector<std::pair<ValueId, c10::Storage>> copies_;
  struct Needed {
    ValueId value;
    c10::Storage held;  // by the tape until now
  };
  std::vector<Needed> needed_;  // to be overwritten
  std::vector<at::Tensor> outputs_;
  std::vector<size_t> fresh_;  // positions in outputs_
};

// Runs instead of an operator on a recording thread, after autograd and before the backend.
void record(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, compat::kRecordKey);
  if (auto scope = current_scope()) {
    Recording(std::move(scope), handle, below, stack).run();
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard exclude(compat::kRecordKey);
  handle.redispatchBoxed(below, stack);
}

}  // namespace

void link_recorder() {}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&record>()); }

}  // namespace retrace
