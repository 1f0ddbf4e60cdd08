#include "policy/predicted_step.h"

#include <algorithm>

#include "policy/overwritten_root.h"

namespace retrace {

using plan::at;
using plan::kNone;

PredictedStep::PredictedStep(const plan::Graph& graph, const PolicyRules& rules)
    : graph_(graph),
      simulation_(graph),
      choices_(graph.values.size()),
      states_(graph.values.size()),
      repeatable_(graph.ops.size()),
      op_walks_(graph.ops.size()) {
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    repeatable_[at(id)] = simulation_.facts().is_repeatable(id);
    for (const ValueId v : results(id)) state(v).recorded_at = id;
  }
  const CutUse use = rules.cuts();
  if (use.keep_period > 0 || use.rebuild_in_segments) cuts_.emplace(use.keep_period);
  segmenting_.in_segments = use.rebuild_in_segments;
  segmenting_.below_plain = true;
  segmenting_.keeps_cuts = use.keep_period > 0;
  if (rules.looks_at_operators()) decide(rules);
}

void PredictedStep::decide(const PolicyRules& rules) {
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const plan::Op& op = graph_.ops[i];
    OpInfo info;
    info.name = op.name;
    info.index = static_cast<int64_t>(i);
    info.seconds = op.seconds;
    const bool keep = rules.decide(info) == Decision::keep;
    // What is kept, stays so when it is written in place.
    const auto note = [&](ValueId v, bool kept_before) {
      if (keep || kept_before) choices_[at(v)] = plan::Choice::keep();
    };
    for (const ValueId v : op.fresh) note(v, false);
    for (const plan::Arg& arg : op.args) {
      if (arg.becomes != kNone) note(arg.becomes, choices_[at(arg.value)].holds());
    }
  }
}

plan::Outcome PredictedStep::run(plan::History* history) {
  if (history != nullptr) history->begin(graph_.values.size(), graph_.events.size());
  simulation_.history = history;
  simulation_.wants_event_peaks = true;
  simulation_.follow(this);
  simulation_.begin(choices_, {});
  const auto events = static_cast<int32_t>(graph_.events.size());
  if (graph_.backwards.empty()) run_backward({static_cast<int32_t>(simulation_.facts().first_unpack), events});
  for (const plan::Backward& backward : graph_.backwards) run_backward(backward);
  simulation_.run_until(graph_.events.size());
  return simulation_.finish();
}

// -- Forward --

void PredictedStep::op_begins(OpId id) {
  sweep_if_due();
  backward_at_ = kNone;
  const plan::Op& op = graph_.ops[at(id)];
  for (const plan::Arg& arg : op.args) {
    if (arg.becomes != kNone) prepare_write(id, arg);
  }
}

bool PredictedStep::copy_may_pay(OpId id, ValueId before) const {
  int64_t read_bytes = 0;
  for (const TapeView::Arg& arg : args(id)) read_bytes += arg.becomes == kNone ? arg.bytes : 0;
  const bool only_writes = graph_.ops[at(id)].fresh.empty();
  return retrace::copy_may_pay(value(before).alive > 0, only_writes, read_bytes, graph_.values[at(before)].bytes);
}

void PredictedStep::prepare_write(OpId id, const plan::Arg& arg) {
  const bool replayable = graph_.values[at(arg.becomes)].producer != kNone;
  const int64_t bytes = graph_.values[at(arg.value)].bytes;
  if (!is_root(arg.value) || state(arg.value).copied || !(replayable || state(arg.value).consumed)) return;
  if (!copy_may_pay(id, arg.value) || bytes > kSmallRootBytes) {
    simulation_.value(arg.becomes).producer = kNone;
    sweeping_.dirty |= state(arg.value).consumed;
    return;
  }
  if (std::find(copies_.begin(), copies_.end(), arg.value) != copies_.end()) return;
  simulation_.add_held(bytes);
  copies_.push_back(arg.value);
}

void PredictedStep::op_ran(OpId id) {
  const plan::Op& op = graph_.ops[at(id)];
  for (const ValueId v : op.fresh) hold_if_better_.made(graph_.values[at(v)].bytes);
  for (const plan::Arg& arg : op.args) {
    hold_if_better_.made(graph_.values[at(arg.value)].bytes);
    if (arg.becomes != kNone && !state(arg.value).copied) let_go(arg.value);
  }
  for (const ValueId v : std::exchange(copies_, {})) {
    state(v).copied = true;
    held(v);
  }
  next_op_ = id + 1;
  if (!has_op(id)) return;
  sweeping_.op_recorded();
  for (const plan::Arg& arg : op.args) {
    if (arg.shape_only) continue;
    State& read = state(arg.value);
    read.consumed = true;
    read.last_read_by = id;
    const bool from_outside = graph_.values[at(arg.value)].external && is_root(arg.value) && arg.becomes == kNone;
    if (from_outside && !std::exchange(read.external_held, true)) held(arg.value);
  }
  if (cuts_) cuts_->op_ran(*this, op);
}

void PredictedStep::saving(ValueId id) {
  sweep_if_due();
  if (!is_root(id)) hold_if_better_.saving(*this, id, /*in_session=*/true);
}

void PredictedStep::saved(ValueId id) {
  followed(id);
  if (cuts_) cuts_->saved(*this, id);
}

void PredictedStep::followed(ValueId id) {
  ++state(id).handles;
  sweeping_.saved();
}

// -- Backward --

void PredictedStep::dropped(ValueId id) {
  --state(id).handles;
  sweeping_.dropped();
  since_balance_.dropped(*this, id);
}

void PredictedStep::nobody_alive(ValueId id) {
  const auto is_root = [&] { return this->is_root(id); };
  if (!is_held(id) || !goes_if_not_alive(in_backward_, simulation_.is_dropping(), /*may_evict=*/false, is_root)) return;
  let_go(id);
  sweeping_.dirty |= in_backward_;
}

void PredictedStep::run_backward(const plan::Backward& backward) {
  simulation_.run_until(at(backward.begin));
  in_backward_ = !backward.records;
  if (in_backward_) collect();
  if (cuts_) segmenting_.cuts = cuts_->cuts(*this);
  simulation_.run_until(at(backward.end));
  in_backward_ = false;
  for (const ValueId start : std::exchange(segmenting_.starts, {})) state(start).starts_segment = false;
  segmenting_.segment_bytes = segmenting_.saved_bytes = 0;
}

void PredictedStep::unpacking(plan::HandleId handle) {
  if (!simulation_.keeps_root(handle)) {
    sweep_if_due();
    backward_at_ = simulation_.facts().saved_at(handle);
  }
}

void PredictedStep::rebuild_begins(ValueId target, const std::vector<OpId>& order) {
  rebuilding_ = true;
  for (const OpId op : order) {
    for (const plan::Arg& arg : graph_.ops[at(op)].args) {
      if (!arg.shape_only && state(arg.value).starts_segment && value(arg.value).rebuilt) return;
    }
  }
  Segmentation chosen = choose_segments(*this, segmenting_, order, target);
  for (const ValueId v : chosen.held) {
    state(v).starts_segment = true;
    segmenting_.starts.push_back(v);
  }
  simulation_.pass_through(chosen.until, std::move(chosen.held));
}

void PredictedStep::peak_rises(int64_t more_bytes) {
  const auto limit_bytes = [&] { return std::max(simulation_.outcome.peak_bytes, plain_peak_bytes_); };
  const auto is_short = [&] { return simulation_.live_bytes() + more_bytes > limit_bytes(); };
  if (!(since_balance_.may_be_out_of_balance() || rebuilding_) || !is_short()) return;
  if (since_balance_.is_out_of_balance(*this)) since_balance_.look(*this);
  if (!rebuilding_) return;
  const auto raise = [&](int64_t bytes) { plain_peak_bytes_ = std::max(plain_peak_bytes_, bytes); };
  let_go_for_rebuild(*this, simulation_.live_bytes() - simulation_.bytes_in_passing(), raise, is_short);
  raise(simulation_.live_bytes() + more_bytes);
}

// -- What the rules look at --

TapeView::Value PredictedStep::value(ValueId id) const {
  const plan::SimValue& v = simulation_.now().values[at(id)];
  const plan::Value& described = graph_.values[at(id)];
  return {.producer = v.producer,
          .recorded_at = state(id).recorded_at,
          .last_read_by = state(id).last_read_by,
          .bytes = described.bytes,
          .handles = state(id).handles,
          .alive = v.alive,
          .pending = v.pending,
          .external = described.external,
          .has_gradient = described.has_gradient,
          .wanted = choices_[at(id)].holds(),
          .held = is_held(id),
          .rebuilt = v.rebuilt != 0,
          .is_copy = state(id).copied,
          .holders = is_held(id) ? 1 : 0,
          .uses = v.uses};
}

// Several rules may ask for the same value.
void PredictedStep::hold(ValueId id) {
  if (!is_held(id)) simulation_.hold(id, plan::kAsItIs);
}

bool PredictedStep::hold_at_hand(ValueId id) {
  if (simulation_.is_living(id)) {
    simulation_.hold(id, plan::kAsItIs);
  } else if (value(id).rebuilt) {
    simulation_.hold_rebuilt(id);
    held(id);
  }
  return is_held(id);
}

bool PredictedStep::hold_given(ValueId id) {
  simulation_.hold_in_hand(id);
  return is_held(id);
}

bool PredictedStep::is_held(ValueId id) const {
  return plan::is_held(simulation_.now().values[at(id)]) || state(id).copied || state(id).external_held;
}

plan::ValueId PredictedStep::present_from(ValueId id) {
  while (id < next_value() && !is_held(id) && simulation_.now().values[at(id)].rebuilt == 0) ++id;
  return id < next_value() ? id : kNone;
}

std::vector<plan::ValueId> PredictedStep::saved() const {
  std::vector<ValueId> saved;
  for (ValueId v = 0; v < next_value(); ++v) {
    if (state(v).handles > 0) saved.push_back(v);
  }
  return saved;
}

bool PredictedStep::is_shared(ValueId id) const {
  return !state(id).copied && (state(id).external_held || simulation_.is_shared(id));
}

bool PredictedStep::is_elsewhere(ValueId id) const { return simulation_.has_storage(id) || state(id).in_hand > 0; }

std::vector<TapeView::Arg> PredictedStep::args(OpId id) const {
  const plan::Op& op = graph_.ops[at(id)];
  std::vector<TapeView::Arg> args;
  for (size_t i = 0; i < op.args.size(); ++i) {
    const plan::Arg& arg = op.args[i];
    const int64_t bytes = op.read_bytes.empty() ? graph_.values[at(arg.value)].bytes : op.read_bytes[i];
    args.push_back({arg.value, arg.becomes, arg.shape_only, bytes});
  }
  return args;
}

std::vector<plan::ValueId> PredictedStep::results(OpId id) const {
  std::vector<ValueId> results;
  plan::for_each_output(graph_.ops[at(id)], [&](ValueId v) { results.push_back(v); });
  return results;
}

}  // namespace retrace
