// The part of PredictedStep that mirrors src/tape/sweep.cpp: what is let go of when the tape looks at all it has.
#include <algorithm>

#include "policy/predicted_step.h"

namespace retrace {

using plan::at;
using plan::kNone;

void PredictedStep::let_go(ValueId id) {
  state(id).external_held = false;
  if (std::exchange(state(id).copied, false)) simulation_.add_held(-graph_.values[at(id)].bytes);
  simulation_.stop_holding(id);
}

void PredictedStep::give_up(ValueId id) {
  choices_[at(id)] = plan::Choice::rebuild();
  let_go(id);
}

void PredictedStep::sweep_if_due() {
  if (sweeping_.is_due(in_backward_)) collect();
}

void PredictedStep::collect() {
  sweeping_.begins();
  std::vector<char> wanted(graph_.values.size());
  for (OpId id = next_op_; id-- > 0;) {
    if (!has_op(id)) continue;
    bool survives = simulation_.now().ops[at(id)].alive > 0;
    for (const ValueId v : results(id)) {
      survives |= let_go_unless_needed(v, wanted[at(v)] != 0) || (!survives && simulation_.is_living(v));
    }
    if (!survives) {
      drop_op(id);
      continue;
    }
    for (const plan::Arg& arg : graph_.ops[at(id)].args) wanted[at(arg.value)] |= !arg.shape_only;
  }
  for (ValueId v = 0; v < next_value(); ++v) {
    if (is_root(v)) let_go_unless_needed(v, wanted[at(v)] != 0);
  }
  drop_lost_ops();
}

bool PredictedStep::let_go_unless_needed(ValueId id, bool wanted) {
  const bool needed = wanted || simulation_.now().values[at(id)].alive > 0;
  if (!needed && is_held(id) && !is_shared(id)) let_go(id);
  return needed;
}

void PredictedStep::drop_op(OpId id) {
  for (const ValueId v : results(id)) simulation_.value(v).producer = kNone;
  repeatable_[at(id)] = 0;
}

// An op that reads a root nobody holds can never run again, so what it made are roots from now on.
void PredictedStep::drop_lost_ops() {
  size_t surviving = 0;
  for (OpId id = 0; id < next_op_; ++id) {
    if (!has_op(id)) continue;
    const auto& args = graph_.ops[at(id)].args;
    const bool lost =
        simulation_.now().ops[at(id)].alive == 0 && std::any_of(args.begin(), args.end(), [&](const plan::Arg& arg) {
          return !arg.shape_only && is_root(arg.value) && !is_held(arg.value);
        });
    lost ? drop_op(id) : static_cast<void>(++surviving);
  }
  sweeping_.ended(surviving);
}

bool PredictedStep::let_go_idle() {
  sweeping_.looks_for_idle();
  const int64_t before = simulation_.now().held_bytes;
  collect();
  bool freed = simulation_.now().held_bytes < before;
  for (ValueId v = 0; v < next_value(); ++v) {
    if (is_root(v) || !is_held(v) || is_shared(v) || simulation_.now().values[at(v)].alive > 0) continue;
    let_go(v);
    freed = true;
  }
  return let_go_unpaying_roots() || freed;
}

bool PredictedStep::let_go_unpaying_roots() {
  std::vector<ValueId> candidates;
  for (ValueId v = 0; v < next_value(); ++v) {
    const bool may_go = is_root(v) && is_held(v) && !state(v).copied && simulation_.now().values[at(v)].alive == 0;
    if (!may_go || is_shared(v) || state(v).handles > 0) continue;
    if (!std::exchange(state(v).weighed, true)) candidates.push_back(v);
  }
  bool freed = false;
  for (const ValueId root : candidates) {
    if (pays(root)) continue;
    let_go(root);
    freed = true;
  }
  if (freed) drop_lost_ops();
  return freed;
}

// Whether more than its bytes can be forgotten for it. What the program still has may be saved yet.
bool PredictedStep::pays(ValueId root) const {
  std::vector<char> depends(graph_.values.size());
  depends[at(root)] = 1;
  int64_t behind = 0;
  for (OpId id = 0; id < next_op_ && behind <= graph_.values[at(root)].bytes; ++id) {
    const auto& args = graph_.ops[at(id)].args;
    const bool reads = has_op(id) && std::any_of(args.begin(), args.end(), [&](const plan::Arg& arg) {
                         return !arg.shape_only && depends[at(arg.value)] != 0;
                       });
    if (!reads) continue;
    for (const ValueId v : results(id)) {
      depends[at(v)] = 1;
      if (state(v).handles > 0 || simulation_.has_storage(v)) behind += graph_.values[at(v)].bytes;
    }
  }
  return behind > graph_.values[at(root)].bytes;
}

void PredictedStep::let_go_roots() {
  bool freed = false;
  for (ValueId v = 0; v < next_value(); ++v) {
    const plan::SimValue& now = simulation_.now().values[at(v)];
    if (!is_root(v) || !is_held(v) || now.alive > 0 || now.uses > 0 || is_shared(v)) continue;
    let_go(v);
    freed = true;
  }
  if (freed) drop_lost_ops();
}

}  // namespace retrace
