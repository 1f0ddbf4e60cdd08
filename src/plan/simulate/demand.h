// Who needs what: three reference counts over a tape. The runtime's tape and the simulator's share these rules.
//
// A value is needed by a handle, or by an op that is needed to rebuild another value. It passes the need on to the op
// that makes it only while it is not itself a source (held, or for `pending` also rebuilt). Counts move along the tape
// with a work list, never by recursion: chains are as long as models are deep.
//
// A tape has value(id), op(id), nobody_alive(id), nobody_pending(id), nobody_reach(id), and work(Kind), a work list per
// kind of count. A value has alive, pending, reach, producer, rebuilt, and a function is_held(value). An op has alive,
// pending, reach, args.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace retrace {

struct Alive {
  static int32_t& of(auto& item) { return item.alive; }
  static bool is_source(const auto& v) { return v.producer < 0 || is_held(v); }
  static void nobody(auto& tape, int32_t id) { tape.nobody_alive(id); }
};

struct Pending {
  static int32_t& of(auto& item) { return item.pending; }
  static bool is_source(const auto& v) { return v.producer < 0 || is_held(v) || v.rebuilt; }
  static void nobody(auto& tape, int32_t id) { tape.nobody_pending(id); }
};

// What a rebuild could come to need if more is let go of. Counted from handles, through everything that is held: only
// roots end it.
struct Reach {
  static int32_t& of(auto& item) { return item.reach; }
  static bool is_source(const auto& v) { return v.producer < 0; }
  static void nobody(auto& tape, int32_t id) { tape.nobody_reach(id); }
};

// Whether a value goes when no handle needs it any more. While recording goes on, an op still to come may read a living
// tensor whose recipe needs the value, and only a root cannot be had again. In a backward that records nothing
// (`in_backward`), memory comes first: collect() sees to such tensors afterwards. Under a budget (`may_evict`), what is
// evicted later may need a root. `dropping`: autograd has let go of a handle.
bool goes_if_not_alive(bool in_backward, bool dropping, bool may_evict, auto is_root) {
  return (in_backward || dropping) && (!is_root() || (in_backward && !may_evict));
}

namespace demand {

using Work = std::vector<std::pair<int32_t, int32_t>>;  // value, change

// The op starts or stops being needed; so do the values it reads.
template <class Kind>
void change_op(auto& op, int32_t by, Work& work) {
  int32_t& need = Kind::of(op);
  const bool was_needed = need > 0;
  need += by;
  if (was_needed == (need > 0)) return;
  for (const auto& arg : op.args) {
    if (!arg.shape_only) work.emplace_back(arg.value, by);
  }
}

// Works off the list down to `base`: what lies below belongs to a caller further up the stack.
template <class Kind>
void run(auto& tape, Work& work, size_t base) {
  while (work.size() > base) {
    const auto [id, by] = work.back();
    work.pop_back();
    auto& v = tape.value(id);
    const bool was_needed = Kind::of(v) > 0;
    Kind::of(v) += by;
    const bool is_needed = Kind::of(v) > 0;
    if (was_needed == is_needed) continue;
    const bool source = Kind::is_source(v);
    if (!is_needed) Kind::nobody(tape, id);
    if (!source) change_op<Kind>(tape.op(v.producer), is_needed ? 1 : -1, work);
  }
}

template <class Kind>
void pass_on(auto& tape, int32_t value, int32_t by) {
  auto& v = tape.value(value);
  if (Kind::is_source(v) || Kind::of(v) == 0) return;
  Work& work = tape.work(Kind{});
  const size_t base = work.size();
  change_op<Kind>(tape.op(v.producer), by, work);
  run<Kind>(tape, work, base);
}

}  // namespace demand

// One more (+1) or one less (-1) need of a value.
template <class Kind>
void change_need(auto& tape, int32_t value, int32_t by) {
  demand::Work& work = tape.work(Kind{});
  work.emplace_back(value, by);
  demand::run<Kind>(tape, work, work.size() - 1);
}

// Call before a value with content becomes a source, or after it has ceased to be one: then its need stops at it, or
// goes on to its producer.
template <class Kind>
void becomes_source(auto& tape, int32_t value) {
  demand::pass_on<Kind>(tape, value, -1);
}
template <class Kind>
void ceases_source(auto& tape, int32_t value) {
  demand::pass_on<Kind>(tape, value, 1);
}

}  // namespace retrace
