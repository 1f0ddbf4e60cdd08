#include "policy/worth_forgetting.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace retrace {
namespace {

using ValueId = TapeView::ValueId;
using OpId = TapeView::OpId;

constexpr size_t kMostOps = 64;  // of a rebuild; before a longer one enough has been forgotten
// So many times what an operator reads and makes has been forgotten: a rebuild has no more than that in its hands at once.
constexpr int64_t kPlenty = 16;

int64_t bytes_around(TapeView& tape, OpId op) {
  int64_t bytes = tape.working_bytes(op);
  for (const TapeView::Arg& arg : tape.args(op)) {
    if (!arg.shape_only) bytes += tape.value(arg.value).bytes;
  }
  return bytes;
}

// What must run to have a value again, in order; empty if that is too much to look at.
std::vector<OpId> rebuild_of(TapeView& tape, ValueId id) {
  tape.begin_walk();
  std::vector<OpId> order;
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const OpId producer = tape.value(work.back()).producer;
    work.pop_back();
    if (tape.was_at_op(producer)) continue;
    if (order.size() == kMostOps) return {};
    order.push_back(producer);
    for (const TapeView::Arg& arg : tape.args(producer)) {
      if (!arg.shape_only && !tape.value(arg.value).is_source()) work.push_back(arg.value);
    }
  }
  std::sort(order.begin(), order.end());
  return order;
}

// The most that is live at once while it runs, without what was live before. What is saved stays for backward.
int64_t bytes_to_rebuild(TapeView& tape, ValueId id, const std::vector<OpId>& order) {
  std::unordered_map<ValueId, int> uses{{id, 1}};
  for (const OpId op : order) {
    for (const TapeView::Arg& arg : tape.args(op)) {
      if (!arg.shape_only && !tape.value(arg.value).is_source()) ++uses[arg.value];
    }
  }
  int64_t live = 0, most = 0;
  for (const OpId op : order) {
    int64_t made = 0;
    for (const ValueId result : tape.results(op)) made += uses.count(result) > 0 ? tape.value(result).bytes : 0;
    most = std::max(most, live + std::max(made, tape.working_bytes(op)));
    live += made;
    for (const TapeView::Arg& arg : tape.args(op)) {
      const auto used = arg.shape_only ? uses.end() : uses.find(arg.value);
      if (used == uses.end() || --used->second > 0 || tape.value(arg.value).handles > 0) continue;
      live -= tape.value(arg.value).bytes;
    }
  }
  return most;
}

}  // namespace

bool WorthForgetting::saving(TapeView& tape, ValueId id) {
  const TapeView::Value v = tape.value(id);
  const int64_t forgotten_bytes = forgotten_bytes_ + v.bytes;
  if (kPlenty * bytes_around(tape, v.producer) > forgotten_bytes) {
    const std::vector<OpId> order = rebuild_of(tape, id);
    if (bytes_to_rebuild(tape, id, order) > forgotten_bytes) return false;
  }
  forgotten_bytes_ = forgotten_bytes;
  return true;
}

}  // namespace retrace
