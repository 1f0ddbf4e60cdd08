// One training step as the planner sees it: operators, values, what autograd saved, and when everything happened.
//
// A value is one content of one storage (see src/tape/tape.h). Bytes are of two kinds: those of values that an operator
// of the step made and that could be forgotten, about which a plan decides; and all others, which every event carries
// as they were measured ("other": weights, gradients, optimizer state, scratch, whatever is not on the tape).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/graph/few.h"

namespace retrace::plan {

using ValueId = int32_t;
using OpId = int32_t;
using HandleId = int32_t;
inline constexpr int32_t kNone = -1;

// An id as a position in a table.
constexpr size_t at(int32_t id) { return static_cast<size_t>(id); }

struct Arg {
  ValueId value = kNone;
  ValueId becomes = kNone;   // the value it is after the operator wrote it in place
  bool shape_only = false;   // the operator does not look at the content
  bool has_gradient = true;  // the tensor that it saw is part of what autograd differentiates
};

// What a result looks like, for people.
struct Output {
  std::vector<int64_t> shape;
  std::string dtype, device;  // "float32", "cpu": at most kLongestType bytes; empty if there is no such result
};
inline constexpr size_t kLongestType = 15, kLongestName = 255;  // bytes

struct Op {
  std::string name;
  double seconds = 0;
  double shortcut_seconds = 0;  // to make its first result while the others are at hand; 0: that cannot be done
  int64_t working_bytes = 0;    // the most it had allocated at once while it ran, results included
  Few<Arg, 2> args;
  Few<ValueId, 2> fresh;                 // results in storages of their own
  std::vector<Output> outputs;           // in the operator's own order, views included; empty if not known
  std::string module;                    // whose forward ran it, "blocks.3.mlp"; empty if not known
  std::vector<int64_t> read_bytes = {};  // by argument: of the view that it saw; empty: it saw the whole values
};

// Call f with every value that an op makes, fresh ones first; with every value whose content it reads.
void for_each_output(const Op& op, auto f) {
  for (const ValueId v : op.fresh) f(v);
  for (const Arg& arg : op.args) {
    if (arg.becomes != kNone) f(arg.becomes);
  }
}
void for_each_read(const Op& op, auto f) {
  for (const Arg& arg : op.args) {
    if (!arg.shape_only) f(arg.value);
  }
}

// What running it again takes at least.
inline double least_seconds(const Op& op) { return op.shortcut_seconds > 0 ? op.shortcut_seconds : op.seconds; }

// A way to hold a value other than as it is. The planner knows ways by these numbers alone.
struct Way {
  std::string kind;   // what people call it
  int64_t bytes = 0;  // on the device, while it is held so
  double store_seconds = 0, load_seconds = 0;
  bool lossy = false;  // what comes back is not what was there: only if the user asked for it
};
inline constexpr int kAsItIs = 0;     // the way every value has: its own storage is held
inline constexpr int kMostWays = 64;  // of one value, beside as it is

struct Value {
  int64_t bytes = 0;
  int32_t storage = kNone;   // values of one storage are contents that replaced one another
  OpId producer = kNone;     // none: a root. It cannot be rebuilt, and is held while needed
  bool external = false;     // from outside the step (a weight, an input): its bytes are among the other
  std::vector<Way> ways;     // 1, 2, ...; 0 is as it is
  std::string name;          // "blocks.3.mlp.fc1.weight"; of an activation, its module; empty if not known
  bool has_gradient = true;  // of a type that has one: no integers, no masks

  int way_count() const { return 1 + static_cast<int>(ways.size()); }
  int64_t bytes_in(int way) const { return way == kAsItIs ? bytes : ways[at(way - 1)].bytes; }
  double seconds_in(int way) const;  // to store it and to load it once
  bool lossy_in(int way) const { return way != kAsItIs && ways[at(way - 1)].lossy; }
  const std::string& kind_of(int way) const;
};

inline double Value::seconds_in(int way) const {
  if (way == kAsItIs) return 0;
  const Way& w = ways[at(way - 1)];
  return w.store_seconds + w.load_seconds;
}

enum class EventKind : uint8_t {
  op,       // an operator ran in forward. `id` is the op
  save,     // autograd saved a tensor. `id` is the handle
  release,  // the program let go of a value's storage. `id` is the value
  unpack,   // backward asked for a saved tensor. `id` is the handle
  drop,     // autograd let go of a saved tensor. `id` is the handle
  end,      // the step ended. `id` is 0
};

struct Event {
  EventKind kind = EventKind::end;
  int32_t id = 0;
  int64_t other_bytes = 0;     // live when it began, without the values of the tape
  int64_t other_peak = 0;      // the most of those from then (for an op: from its end) until the next event
  int64_t gradient_bytes = 0;  // those among other_bytes that are gradients
  // Those that the plain program has not: copies of what is overwritten, and what only the tape still holds. Not in
  // tape files.
  int64_t extra_bytes = 0;    // among other_bytes
  int64_t extra_at_peak = 0;  // the plain program's peak is so much below other_peak
};

// An operator that backward ran itself, for reports: no plan changes it.
struct BackwardOp {
  std::string name;
  double seconds = 0;
  int32_t after_event = kNone;  // the last event before it
};

// One backward() or grad() that was not called inside another.
struct Backward {
  int32_t begin = 0, end = 0;  // events, the end excluded
  bool records = false;        // it makes a graph of its own (create_graph), so that it is recorded like a forward
};

struct Graph {
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<ValueId> handles;          // the value each saved tensor stands for
  std::vector<Event> events;             // in the order they happened: forward, then backward
  std::vector<Backward> backwards;       // in order; empty: not known, taken for one from the first unpack on
  std::vector<BackwardOp> backward_ops;  // in the order they ran
  int64_t start_bytes = 0;               // live when the step began; part of every event's other_bytes
  int64_t weight_bytes = 0;              // those among start_bytes that are weights
  double seconds = 0;                    // of the step, rebuilding excluded

  // Of operators and shapes, not of times: the same for two steps that did the same.
  uint64_t signature = 0;
};

// What is to become of a value.
class Choice {
 public:
  constexpr Choice() = default;  // rebuild()
  // Forgotten; rebuilt once and then held for as long as backward will ask for it.
  static constexpr Choice rebuild() { return Choice(); }
  // Forgotten; rebuilt whenever it is asked for, and never held.
  static constexpr Choice rebuild_each_time() { return Choice(kEachTime); }
  static constexpr Choice hold(int way) { return Choice(static_cast<uint8_t>(kHold + way)); }
  static constexpr Choice keep() { return hold(kAsItIs); }

  constexpr bool holds() const { return code_ >= kHold; }
  constexpr int way() const { return code_ - kHold; }  // if it holds
  constexpr size_t index() const { return code_; }     // in tables: rebuild, each time, way 0, way 1, ...
  bool operator==(const Choice&) const = default;

 private:
  static constexpr uint8_t kEachTime = 1, kHold = 2;
  explicit constexpr Choice(uint8_t code) : code_(code) {}
  uint8_t code_ = 0;
};
using Choices = std::vector<Choice>;  // by value

// The first event of backward; the number of events if it asks for nothing.
size_t first_unpack(const Graph& graph);

// The backward that an event is in, as far as the graph knows; null if it is in none.
const Backward* backward_at(const Graph& graph, int32_t event);

// One more than the largest id of a storage. A graph may name more storages than it has values.
size_t storage_count(const Graph& graph);

// Whether a value can be held at all: it can be rebuilt, is saved or read, and nothing overwrites it.
std::vector<bool> keepable(const Graph& graph);

// Everything that can be chosen for a value of so many ways.
std::vector<Choice> all_choices(int ways);

// The choice as it can be followed: a value without that way is held as it is, and one that cannot be held is rebuilt.
inline Choice possible(Choice choice, const Value& value, bool keepable) {
  if (!choice.holds()) return choice;
  if (!keepable) return Choice::rebuild();
  return choice.way() < value.way_count() ? choice : Choice::keep();
}

// Of an operator's name. Not std::hash: signatures are written to files.
uint64_t name_hash(std::string_view name);
// A hash of all that went into `hash`, and of `with` after it.
constexpr uint64_t mixed(uint64_t hash, uint64_t with) {
  hash ^= with + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDu;
}

// Throws UsageError naming the first thing that does not hold: ids in range, an op reads what was made before it, bytes
// and seconds finite and not negative, events that refer to what exists.
void check(const Graph& graph);

}  // namespace retrace::plan
