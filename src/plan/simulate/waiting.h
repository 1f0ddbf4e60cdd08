// Who waits for content that a rebuild is about to overwrite. Replay and the simulator share this rule.
//
// An operator in place takes over the storage of what was rebuilt for it. If others are to read the old content later, when
// backward asks for their results, it has to be copied first. Often they read a small part of it (a gate, a row of a buffer):
// then it takes less memory, and no more time, to run them now and hold what they make.
//
// A rebuild has producer(value), is_ours(value) (rebuilt, or this rebuild will), pending_of(value), bytes(value); has_op(op),
// is_pending(op), is_planned(op), args(op), is_at_hand(value, op) (or will be when the op's turn comes), each_result(op, f),
// stays(value) (if it is made now, until backward asks), and plan(op): from now on it is part of the rebuild.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace retrace::waiting {

// How often an op reads a value.
int32_t reads(const auto& rebuild, int32_t op, int32_t value) {
  const auto& args = rebuild.args(op);
  return static_cast<int32_t>(
      std::count_if(args.begin(), args.end(), [&](const auto& arg) { return !arg.shape_only && arg.value == value; }));
}

// Whether anybody but `overwriting` waits.
bool is_waited_for(const auto& rebuild, int32_t value, int32_t overwriting) {
  const int32_t pending = rebuild.pending_of(value);
  return pending > 0 && pending > (rebuild.is_pending(overwriting) ? reads(rebuild, overwriting, value) : 0);
}

// Whether an op that reads `value` can be run now, and how many bytes of what it makes then wait for backward.
bool can_run_now(const auto& rebuild, int32_t op, int32_t value, int64_t& bytes) {
  for (const auto& arg : rebuild.args(op)) {
    if (arg.becomes >= 0) return false;
    if (!arg.shape_only && arg.value != value && !rebuild.is_at_hand(arg.value, op)) return false;
  }
  bool stays = true;
  rebuild.each_result(op, [&](int32_t result) {
    if (rebuild.pending_of(result) == 0) return;
    stays &= rebuild.stays(result);
    bytes += rebuild.bytes(result);
  });
  return stays;
}

// The ops that wait for `value`, which `overwriting` is about to write over, if all who wait can be run now and what they make
// is no larger than a copy; else none.
std::vector<int32_t> readers_to_run(const auto& rebuild, int32_t overwriting, int32_t value, int32_t after) {
  std::vector<int32_t> readers;
  int32_t waiting = rebuild.pending_of(value);
  int64_t bytes = 0;
  for (int32_t op = rebuild.producer(value) + 1; op <= overwriting && waiting > 0; ++op) {
    if (!rebuild.has_op(op) || !rebuild.is_pending(op)) continue;
    const int32_t here = reads(rebuild, op, value);
    waiting -= here;
    if (here == 0 || rebuild.is_planned(op)) continue;
    if (op <= after || !can_run_now(rebuild, op, value, bytes) || bytes > rebuild.bytes(value)) return {};
    readers.push_back(op);
  }
  if (waiting > 0) readers.clear();  // backward asks for the content itself
  return readers;
}

// Adds them to `order`, the ops of a rebuild, sorted. `after`: of what it makes up to this op, little stays.
void run_readers_first(auto& rebuild, std::vector<int32_t>& order, int32_t after) {
  const size_t count = order.size();
  for (size_t i = 0; i < count; ++i) {
    const int32_t op = order[i];
    if (op <= after) continue;
    for (const auto& arg : rebuild.args(op)) {
      if (arg.becomes < 0 || arg.shape_only) continue;
      if (!is_waited_for(rebuild, arg.value, op) || !rebuild.is_ours(arg.value)) continue;
      for (const int32_t reader : readers_to_run(rebuild, op, arg.value, after)) {
        rebuild.plan(reader);
        order.push_back(reader);
      }
    }
  }
  if (order.size() > count) std::sort(order.begin(), order.end());
}

}  // namespace retrace::waiting
