// How a value is rebuilt: what runs again, what an operator may write over, and what stays when it has run. Replay and
// the simulator share these rules.
//
// A rebuild has value(id) and op(id), as for demand.h; recorded(op), what it reads and makes; and
//   of an op: has_op(), mark() (from now on it is part of the rebuild), is_planned();
//   of a value: use() (an op of the rebuild is still to read it: counted in v.uses), bytes(), has_content(value, op)
//     (somewhere, for that op), is_available(value, op) (the same, or it has only to be loaded), is_ours_alone()
//     (rebuilt, and nobody else has it), is_rebuilt_each_time() (never held until backward asks), free() (what was
//     rebuilt);
//   until(), kept_until(): of what ops up to until() make, only the values in kept_until(), sorted, stay.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace retrace::rebuilding {

inline int32_t result_of(int32_t value) { return value; }
int32_t result_of(const auto& output) { return output.value; }

// -- What runs --

// From now on the op is part of the rebuild.
void add_op(auto& rebuild, int32_t op) {
  rebuild.mark(op);
  for (const auto& arg : rebuild.op(op).args) {
    if (!arg.shape_only) rebuild.use(arg.value);
  }
}

bool is_to_be_made(const auto& rebuild, int32_t value) { return rebuild.is_planned(rebuild.value(value).producer); }

// Whether the op can have the value, by the time it runs, without another op in the rebuild.
bool is_at_hand(const auto& rebuild, int32_t value, int32_t op) {
  return is_to_be_made(rebuild, value) || rebuild.is_available(value, op);
}

// All ops between the target, which is not at hand, and the nearest values that are. `work` is memory to use.
void find_ops(auto& rebuild, int32_t target, std::vector<int32_t>& order, std::vector<int32_t>& work) {
  work.assign(1, target);
  while (!work.empty()) {
    const int32_t op = rebuild.value(work.back()).producer;
    work.pop_back();
    if (rebuild.is_planned(op)) continue;
    add_op(rebuild, op);
    order.push_back(op);
    for (const auto& arg : rebuild.op(op).args) {
      if (!arg.shape_only && !is_at_hand(rebuild, arg.value, op)) work.push_back(arg.value);
    }
  }
  std::sort(order.begin(), order.end());
}

// Whether the other results are there, from which a shortcut makes the first.
bool others_are_there(const auto& fresh, auto is_there) {
  return std::all_of(fresh.begin() + 1, fresh.end(), [&](const auto& output) { return is_there(result_of(output)); });
}

// Whether they are there, and nobody wants what the operator would have written.
bool may_take_shortcut(auto& rebuild, int32_t op, double shortcut_seconds) {
  if (shortcut_seconds <= 0) return false;
  const auto is_wanted = [&](const auto& arg) {
    return arg.becomes >= 0 && (rebuild.value(arg.becomes).uses > 0 || rebuild.value(arg.becomes).pending > 0);
  };
  const auto& args = rebuild.op(op).args;
  return others_are_there(rebuild.recorded(op).fresh, [&](int32_t value) { return rebuild.has_content(value, op); }) &&
         std::none_of(args.begin(), args.end(), is_wanted);
}

// -- What stays --

// Whether a rebuilt value stays when the rebuild has no more use for it.
bool stays(const auto& rebuild, int32_t value) {
  if (rebuild.value(value).pending == 0 || rebuild.is_rebuilt_each_time(value)) return false;
  const int32_t op = rebuild.value(value).producer;
  if (op < 0 || op > rebuild.until() || !rebuild.is_planned(op)) return true;
  const auto& kept = rebuild.kept_until();
  return std::binary_search(kept.begin(), kept.end(), value);
}

// Whether a value that an operator has just made is taken.
bool is_taken(const auto& rebuild, int32_t value) {
  const bool is_there = rebuild.value(value).rebuilt || is_held(rebuild.value(value));
  return !is_there && (rebuild.value(value).uses > 0 || rebuild.value(value).pending > 0);
}

// Frees a rebuilt value that does not stay, once the last operator that reads it has run.
void release(auto& rebuild, int32_t value) {
  if (rebuild.value(value).uses == 0 && rebuild.value(value).rebuilt && !stays(rebuild, value)) rebuild.free(value);
}

// One that was to read it has.
void used(auto& rebuild, int32_t value) {
  --rebuild.value(value).uses;
  release(rebuild, value);
}
void inputs_used(auto& rebuild, int32_t op) {
  for (const auto& arg : rebuild.op(op).args) {
    if (!arg.shape_only) used(rebuild, arg.value);
  }
}

// -- What is written over --
//
// An operator that writes in place takes over the storage of the value that was rebuilt for it. If others are to read
// the old content later, when backward asks for their results, it has to be copied first. Often they read a small part
// of it (a gate, a row of a buffer): then it takes less memory, and no more time, to run them now and hold what they
// make.

// How often an op reads a value.
int32_t reads(const auto& rebuild, int32_t op, int32_t value) {
  const auto& args = rebuild.op(op).args;
  return static_cast<int32_t>(
      std::count_if(args.begin(), args.end(), [&](const auto& arg) { return !arg.shape_only && arg.value == value; }));
}

// Whether an op other than `overwriting` waits for the value.
bool is_waited_for(const auto& rebuild, int32_t value, int32_t overwriting) {
  const int32_t pending = rebuild.value(value).pending;
  return pending > 0 && pending > (rebuild.op(overwriting).pending > 0 ? reads(rebuild, overwriting, value) : 0);
}

// Whether `op` may write over the value itself. If not, it writes over a copy.
bool may_write_over(const auto& rebuild, int32_t op, int32_t value) {
  return rebuild.is_ours_alone(value) && rebuild.value(value).uses <= reads(rebuild, op, value) &&
         !is_waited_for(rebuild, value, op);
}

// Whether an op that reads `value` can be run now, and how many bytes of what it makes then wait for backward.
bool can_run_now(const auto& rebuild, int32_t op, int32_t value, int64_t& bytes) {
  for (const auto& arg : rebuild.op(op).args) {
    if (arg.becomes >= 0) return false;
    if (!arg.shape_only && arg.value != value && !is_at_hand(rebuild, arg.value, op)) return false;
  }
  bool all_stay = true;
  for_each_output(rebuild.recorded(op), [&](int32_t result) {
    if (rebuild.value(result).pending == 0) return;
    all_stay &= stays(rebuild, result);
    bytes += rebuild.bytes(result);
  });
  return all_stay;
}

// The ops that wait for `value`, which `overwriting` is about to write over: if all of them can be run now, and what
// they make is no larger than a copy. Else none.
std::vector<int32_t> readers_to_run(const auto& rebuild, int32_t overwriting, int32_t value) {
  std::vector<int32_t> readers;
  int32_t waiting = rebuild.value(value).pending;
  int64_t bytes = 0;
  for (int32_t op = rebuild.value(value).producer + 1; op <= overwriting && waiting > 0; ++op) {
    if (!rebuild.has_op(op) || rebuild.op(op).pending == 0) continue;
    const int32_t here = reads(rebuild, op, value);
    waiting -= here;
    if (here == 0 || rebuild.is_planned(op)) continue;
    if (op <= rebuild.until() || !can_run_now(rebuild, op, value, bytes) || bytes > rebuild.bytes(value)) return {};
    readers.push_back(op);
  }
  if (waiting > 0) readers.clear();  // backward asks for the content itself
  return readers;
}

// Adds such readers to `order`, the ops of a rebuild, sorted.
void run_readers_first(auto& rebuild, std::vector<int32_t>& order) {
  const size_t count = order.size();
  for (size_t i = 0; i < count; ++i) {
    const int32_t op = order[i];
    if (op <= rebuild.until()) continue;
    for (const auto& arg : rebuild.op(op).args) {
      if (arg.becomes < 0 || arg.shape_only) continue;
      if (!is_waited_for(rebuild, arg.value, op)) continue;
      if (!rebuild.value(arg.value).rebuilt && !is_to_be_made(rebuild, arg.value)) continue;
      for (const int32_t reader : readers_to_run(rebuild, op, arg.value)) {
        add_op(rebuild, reader);
        order.push_back(reader);
      }
    }
  }
  if (order.size() > count) std::sort(order.begin(), order.end());
}

}  // namespace retrace::rebuilding
