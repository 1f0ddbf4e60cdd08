#include "policy/predicted_step.h"

#include <algorithm>

namespace retrace {
namespace {

using plan::Arg;
using plan::at;
using plan::kNone;

constexpr int64_t kSmallRootBytes = 64 * 1024;

template <class F>
void for_each_result(const plan::Op& op, F f) {
  for (const plan::ValueId v : op.fresh) f(v);
  for (const Arg& arg : op.args) {
    if (arg.becomes != kNone) f(arg.becomes);
  }
}

}  // namespace

PredictedStep::PredictedStep(const plan::Graph& graph, const PolicyRules& rules)
    : graph_(graph),
      simulation_(graph),
      choices_(graph.values.size()),
      repeatable_(graph.ops.size()),
      recorded_at_(graph.values.size(), kNone),
      handles_(graph.values.size()),
      consumed_(graph.values.size()),
      copied_(graph.values.size()),
      starts_segment_(graph.values.size()),
      op_walks_(graph.ops.size()),
      value_walks_(graph.values.size()) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for_each_result(graph.ops[i], [&](ValueId v) {
      recorded_at_[at(v)] = static_cast<OpId>(i);
      repeatable_[i] |= graph.values[at(v)].producer != kNone;
    });
  }
  const CutUse use = rules.cuts();
  if (use.keep_period > 0 || use.rebuild_in_segments) cuts_.emplace(use.keep_period);
  segmenting_.in_segments = use.rebuild_in_segments;
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
  simulation_.run_until(graph_.events.size());
  return simulation_.finish();
}

// -- What happens --

void PredictedStep::op_begins(OpId id) {
  const plan::Op& op = graph_.ops[at(id)];
  for (const plan::Arg& arg : op.args) {
    if (arg.becomes != kNone) copy_if_overwritten(op, arg);
  }
}

// As Arguments::prepare_write() does.
void PredictedStep::copy_if_overwritten(const plan::Op& op, const plan::Arg& arg) {
  const plan::SimValue& v = simulation_.now().values[at(arg.value)];
  const bool replayable = graph_.values[at(arg.becomes)].producer != kNone;
  if (v.producer != kNone || copied_[at(arg.value)] != 0 || !(replayable || consumed_[at(arg.value)] != 0)) return;
  const bool is_update = op.fresh.empty() && v.alive == 0;
  if (is_update || graph_.values[at(arg.value)].bytes > kSmallRootBytes) {
    simulation_.value(arg.becomes).producer = kNone;
    return;
  }
  copied_[at(arg.value)] = 1;
  simulation_.add_held(graph_.values[at(arg.value)].bytes);
}

void PredictedStep::op_ran(OpId id) {
  next_op_ = id + 1;
  const plan::Op& op = graph_.ops[at(id)];
  for (const plan::Arg& arg : op.args) {
    if (!arg.shape_only) consumed_[at(arg.value)] = 1;
  }
  if (!cuts_) return;
  for (const plan::Arg& arg : op.args) {
    if (!arg.shape_only && arg.has_gradient) cuts_->read(*this, arg.value);
  }
  if (!op.fresh.empty()) return cuts_->made(*this, op.fresh.front(), kNone);
  const auto written = std::find_if(op.args.begin(), op.args.end(), [](const auto& a) { return a.becomes != kNone; });
  if (written != op.args.end()) cuts_->made(*this, written->becomes, written->value);
}

void PredictedStep::held(ValueId id) { keeps_any_ |= simulation_.now().values[at(id)].producer != kNone; }

void PredictedStep::saving(ValueId id) {
  const plan::SimValue& v = simulation_.now().values[at(id)];
  if (!is_held(v) && handles_[at(id)] == 0 && keeps_any_) instead_.saving(*this, id);
}

void PredictedStep::saved(ValueId id) {
  ++handles_[at(id)];
  if (cuts_) cuts_->saved(*this, id);
}

void PredictedStep::dropped(ValueId id) { --handles_[at(id)]; }

// While recording goes on, an op still to come may read what needs this, and only a root cannot be had again.
void PredictedStep::nobody_alive(ValueId id) {
  const bool root = simulation_.now().values[at(id)].producer == kNone;
  if (!simulation_.now().in_backward && (root || !simulation_.is_dropping())) return;
  let_go(id);
}

void PredictedStep::backward_begins() {
  collect();
  if (cuts_) segmenting_.cuts = cuts_->cuts();
}

void PredictedStep::rebuild_begins(ValueId target, const std::vector<OpId>& order) {
  for (const OpId op : order) {
    for (const plan::Arg& arg : graph_.ops[at(op)].args) {
      if (!arg.shape_only && starts_segment_[at(arg.value)] != 0 && value(arg.value).rebuilt) return;
    }
  }
  Segmentation chosen = choose_segments(*this, segmenting_, order, target);
  for (const ValueId v : chosen.held) {
    starts_segment_[at(v)] = 1;
    segmenting_.starts.push_back(v);
  }
  simulation_.pass_through(chosen.until, std::move(chosen.held));
}

void PredictedStep::peak_rises(int64_t) {}

// -- What is let go of --

void PredictedStep::let_go(ValueId id) {
  simulation_.stop_holding(id);
  if (copied_[at(id)] == 1) simulation_.add_held(-graph_.values[at(id)].bytes);
  if (copied_[at(id)] != 0) copied_[at(id)] = 2;
}

// What was held in case it is needed, and is not; see tape/sweep.cpp.
void PredictedStep::collect() {
  std::vector<char> wanted(graph_.values.size());
  for (OpId id = next_op_; id-- > 0;) {
    if (repeatable_[at(id)] == 0) continue;
    bool survives = simulation_.now().ops[at(id)].alive > 0;
    for_each_result(graph_.ops[at(id)], [&](ValueId v) {
      const bool needed = let_go_unless_needed(v, wanted[at(v)] != 0);
      survives |= needed || (!survives && simulation_.is_living(v));
    });
    if (!survives) continue;
    for (const plan::Arg& arg : graph_.ops[at(id)].args) wanted[at(arg.value)] |= !arg.shape_only;
  }
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    if (simulation_.now().values[v].producer == kNone) let_go_unless_needed(static_cast<ValueId>(v), wanted[v] != 0);
  }
}

bool PredictedStep::let_go_unless_needed(ValueId id, bool wanted) {
  const bool needed = wanted || simulation_.now().values[at(id)].alive > 0;
  if (!needed && !simulation_.is_shared(id)) let_go(id);
  return needed;
}

// -- What the rules look at --

TapeView::Value PredictedStep::value(ValueId id) const {
  const plan::SimValue& v = simulation_.now().values[at(id)];
  const plan::Value& described = graph_.values[at(id)];
  return {.producer = v.producer,
          .recorded_at = recorded_at_[at(id)],
          .bytes = described.bytes,
          .handles = handles_[at(id)],
          .alive = v.alive,
          .pending = v.pending,
          .external = described.external,
          .has_gradient = described.has_gradient,
          .wanted = choices_[at(id)].holds(),
          .held = is_held(v) || copied_[at(id)] == 1,
          .rebuilt = v.rebuilt != 0};
}

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
  for_each_result(graph_.ops[at(id)], [&](ValueId v) { results.push_back(v); });
  return results;
}

}  // namespace retrace
