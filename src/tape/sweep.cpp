// What the tape lets go of when it looks at all it has: ops that nobody can ask for, roots and kept values that do not pay.
#include <algorithm>

#include "plan/simulate/demand.h"
#include "tape/budgeted_step.h"
#include "tape/handle.h"
#include "tape/tape.h"
#include "tape/timeline.h"

namespace retrace {
namespace {

constexpr int kMostAncestors = 32;  // to look at; what a policy keeps is near

bool reads_any(const Op& op, const std::vector<char>& values) {
  return std::any_of(op.args.begin(), op.args.end(), [&](const TensorArg& arg) {
    return !arg.shape_only && values[static_cast<size_t>(arg.value)] != 0;
  });
}

}  // namespace

void Tape::drop_op(OpId id) {
  for_each_output(op(id), [&](ValueId v) {
    if (value(v).producer != id) return;
    becomes_source<Reach>(*this, v);
    value(v).producer = kNone;
    if (timeline && living_storage(v)) timeline->became_root(v);
  });
  ops_[static_cast<size_t>(id)].reset();
}

// Two sweeps. Backwards: an op survives if a handle, a living tensor or a surviving op may ask for what it makes.
// Forwards: an op that reads a root nobody holds can never run again, so what it made are roots from now on.
void Tape::collect() {
  dirty_ = false;
  since_collect_ = since_dirty_ = surviving_ops_ = 0;
  std::vector<char> wanted(values_.size());
  const auto settle = [&](ValueId id) {
    const bool needed = wanted[static_cast<size_t>(id)] || value(id).alive > 0;
    if (!needed && !value(id).held.is_shared()) let_go(id);
    return needed || living_storage(id);
  };
  for (OpId id = next_op() - 1; id >= 0; --id) {
    Op* const candidate = find_op(id);
    if (!candidate) continue;
    bool survives = candidate->alive > 0;
    for_each_output(*candidate, [&](ValueId v) { survives |= static_cast<bool>(settle(v)); });
    if (!survives) {
      drop_op(id);
      continue;
    }
    for (const TensorArg& arg : candidate->args) wanted[static_cast<size_t>(arg.value)] |= !arg.shape_only;
  }
  for (size_t v = 0; v < values_.size(); ++v) {
    if (is_root(values_[v])) settle(static_cast<ValueId>(v));
  }
  drop_lost_ops();
}

void Tape::drop_lost_ops() {
  surviving_ops_ = 0;
  for (OpId id = 0; id < next_op(); ++id) {
    const Op* const candidate = find_op(id);
    if (!candidate) continue;
    const bool lost =
        candidate->alive == 0 && std::any_of(candidate->args.begin(), candidate->args.end(), [&](auto& arg) {
          return !arg.shape_only && is_root(value(arg.value)) && !value(arg.value).held;
        });
    lost ? drop_op(id) : static_cast<void>(++surviving_ops_);
  }
}

// The tape alone has it, and no handle could come to need it.
bool Tape::is_idle(ValueId id) const {
  const Value& v = value(id);
  return v.held && !v.held.is_shared() && v.alive == 0 && v.reach == 0;
}

bool Tape::let_go_idle() {
  idle_looked_for_ = next_op();
  const int64_t before = kept_bytes_;
  collect();
  bool freed = kept_bytes_ < before;
  for (size_t v = 0; v < values_.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!is_idle(id) || is_root(value(id))) continue;
    let_go(id);
    freed = true;
  }
  return let_go_unpaying_roots() || freed;
}

// A sweep for every operator would take the square of the tape's length.
bool Tape::may_have_idle() const { return static_cast<size_t>(next_op() - idle_looked_for_) > surviving_ops_ / 16; }

bool Tape::let_go_roots() {
  bool freed = false;
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& root = values_[v];
    if (!is_root(root) || !root.held || root.alive > 0 || root.uses > 0 || root.held.is_shared()) continue;
    let_go(static_cast<ValueId>(v));
    freed = true;
  }
  if (freed) drop_lost_ops();
  return freed;
}

bool Tape::let_go_unpaying_roots() {
  std::vector<ValueId> candidates;
  for (size_t v = 0; v < values_.size(); ++v) {
    Value& root = values_[v];
    if (!is_root(root) || !root.held || root.held.is_copy() || root.alive > 0) continue;
    if (root.held.is_shared() || root.handles > 0 || std::exchange(root.weighed, true)) continue;
    candidates.push_back(static_cast<ValueId>(v));
  }
  if (candidates.empty()) return false;
  bool freed = false;
  std::vector<char> depends(values_.size());
  for (const ValueId root : candidates) {
    std::fill(depends.begin(), depends.end(), 0);
    depends[static_cast<size_t>(root)] = 1;
    int64_t behind = 0;
    for (const auto& candidate : ops_) {
      if (!candidate) continue;
      if (!reads_any(*candidate, depends)) continue;
      // What the program still has may be saved yet.
      for_each_output(*candidate, [&](ValueId v) {
        depends[static_cast<size_t>(v)] = 1;
        if (value(v).handles > 0 || storage(value(v).storage).pin.use_count() > 0) behind += value(v).bytes;
      });
      if (behind > value(root).bytes) break;
    }
    if (behind > value(root).bytes) continue;
    let_go(root);
    freed = true;
  }
  if (freed) drop_lost_ops();
  return freed;
}

// What plain autograd would have and we do not.
int64_t Tape::forgotten_bytes() {
  int64_t bytes = 0;
  ++pricings_;
  for (const Handle* const handle : handles_) {
    Value& v = value(handle->value());
    if (v.held || v.rebuilt || std::exchange(v.priced, pricings_) == pricings_) continue;
    const bool given = v.given && v.given->use_count() > 0;
    if (!given && storage(v.storage).pin.use_count() == 0) bytes += v.bytes;
  }
  return bytes;
}

int64_t Tape::below_plain_bytes() {
  int64_t bytes = forgotten_bytes();
  for (const Value& v : values_) {
    if (v.handles > 0 || v.holders > 1) continue;
    if (v.held ? !v.held.is_shared() : v.rebuilt && v.rebuilt.use_count() <= 1) bytes -= v.bytes;
  }
  return bytes;
}

void Tape::balance() {
  if (closed_ || budgeted_step || !may_be_out_of_balance()) return;
  const auto in_vain = [&](ValueId id) {
    const Value& v = value(id);
    return v.held && v.handles == 0 && v.holders <= 1 && v.uses == 0 && !v.held.is_shared();
  };
  int64_t spare = forgotten_bytes();
  std::erase_if(held_, [&](ValueId id) { return !value(id).held; });
  std::vector<ValueId> held;
  for (const ValueId id : held_) {
    if (!in_vain(id)) continue;
    held.push_back(id);
    spare -= value(id).bytes;
  }
  if (spare < 0 && may_have_idle() && let_go_idle()) {
    held_since_balance_ = slack_bytes_ + 1;  // look again
    return balance();
  }
  // What is left is needed for a rebuild. A value that can be made again costs time to be without, a root cannot be.
  std::sort(held.begin(), held.end(), [&](ValueId a, ValueId b) { return value(a).bytes > value(b).bytes; });
  for (const ValueId id : held) {
    if (spare >= 0) break;
    if (is_root(value(id)) || value(id).held.is_copy() || !in_vain(id)) continue;
    spare += value(id).bytes;
    value(id).keep = false;
    let_go(id);
  }
  if (spare < 0) let_go_roots();
  slack_bytes_ = std::max<int64_t>(spare, 0);
  held_since_balance_ = 0;
}

// What a rebuild of `id` would begin from, as far as it is near.
std::vector<ValueId> Tape::nearest_sources(ValueId id) {
  ++pricings_;
  std::vector<ValueId> sources, work{id};
  int looked = 0;
  while (!work.empty() && looked++ < kMostAncestors) {
    Op& producer = op(value(work.back()).producer);
    work.pop_back();
    if (std::exchange(producer.priced, pricings_) == pricings_) continue;
    for (const TensorArg& arg : producer.args) {
      Value& v = value(arg.value);
      if (arg.shape_only || std::exchange(v.priced, pricings_) == pricings_) continue;
      (Alive::is_source(v) ? sources : work).push_back(arg.value);
    }
  }
  return sources;
}

void Tape::hold_if_no_larger(ValueId id, const c10::Storage& storage) {
  if (budgeted_step || !tags_weights_ || value(id).held || value(id).handles > 0 || !keeps_any_) return;
  const std::vector<ValueId> sources = nearest_sources(id);
  int64_t spent = 0, gained = value(id).bytes;
  std::vector<ValueId> kept, instead;
  for (const ValueId source : sources) {
    const Value& v = value(source);
    if (is_root(v) || v.external || v.handles > 0 || v.alive > 0) continue;
    kept.push_back(source);
    spent += v.bytes;
    for (const ValueId other : held_instead_[source]) {
      if (!value(other).held || value(other).handles == 0) continue;
      instead.push_back(other);
      gained += value(other).bytes;
    }
  }
  if (kept.empty()) return;
  if (spent >= gained) {
    hold(id, storage);
    if (sources.size() == 1) held_instead_[kept.front()].push_back(id);
    for (const ValueId source : kept) let_go(source);
  } else {
    for (const ValueId other : instead) let_go(other);
  }
}

void Tape::secure_dependents(ValueId root) {
  if (value(root).alive == 0 && !budgeted_step) return;
  std::vector<char> depends(values_.size());
  depends[static_cast<size_t>(root)] = 1;
  for (const auto& candidate : ops_) {
    if (!candidate) continue;
    if (!reads_any(*candidate, depends)) continue;
    // What is held already can no longer be rebuilt, so nothing may let go of it.
    for_each_output(*candidate, [&](ValueId v) {
      if (Alive::is_source(value(v))) {
        make_root(v);
      } else {
        depends[static_cast<size_t>(v)] = 1;
      }
    });
  }
  const std::vector<Handle*> handles = handles_;
  for (Handle* const handle : handles) {
    const ValueId v = handle->value();
    if (!depends[static_cast<size_t>(v)]) continue;
    if (!value(v).held) hold_rebuilt(v);
    make_root(v);
  }
}

}  // namespace retrace
