// One training step as the planner sees it: operators, values, what autograd saved, and when everything happened.
//
// A value is one content of one storage (see src/tape/tape.h). Bytes are of two kinds: those of values that an operator
// of the step made and that could be forgotten, which a plan moves about, and all others, which the step's timeline
// carries along as they were measured ("other": weights, gradients, optimizer state, scratch, whatever is not on the tape).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retrace::plan {

using ValueId = int32_t;
using OpId = int32_t;
using HandleId = int32_t;
inline constexpr int32_t kNone = -1;

struct Arg {
  ValueId value = kNone;
  ValueId becomes = kNone;  // the value it is after the operator wrote it in place
  bool shape_only = false;  // the operator does not look at the content
};

struct Op {
  std::string name;
  double seconds = 0;
  double shortcut_seconds = 0;  // of making its first result while the others are at hand; 0: it cannot be
  int64_t working_bytes = 0;    // the most it had allocated at once while it ran, results included
  std::vector<Arg> args;
  std::vector<ValueId> fresh;  // results in storages of their own
};

// What running it again takes if all goes well.
inline double least_seconds(const Op& op) { return op.shortcut_seconds > 0 ? op.shortcut_seconds : op.seconds; }

// How a value may be held in fewer bytes.
struct Encoding {
  int64_t bytes = 0;  // 0: it cannot be
  double encode_seconds = 0, decode_seconds = 0;
  bool lossy = false;  // what comes back is not what was there: only if the user asked for it
};

struct Value {
  int64_t bytes = 0;
  int32_t storage = kNone;  // values of one storage are contents that replaced one another
  OpId producer = kNone;    // none: a root. It cannot be rebuilt, and is held while needed
  bool foreign = false;     // from outside the step (a weight, an input): its bytes are among the other
  Encoding encoding;
};

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
  int64_t other_peak = 0;      // the most of it from then (for an op: from its end) until the next event
  int64_t gradient_bytes = 0;  // those among other_bytes that are gradients
};

struct Graph {
  std::vector<Op> ops;
  std::vector<Value> values;
  std::vector<ValueId> handles;  // the value each saved tensor stands for
  std::vector<Event> events;     // in the order they happened: forward, then backward
  int64_t start_bytes = 0;       // live when the step began; part of every event's other_bytes
  int64_t weight_bytes = 0;      // those among start_bytes that are weights
  double seconds = 0;            // of the step, rebuilding excluded

  // Of operators and shapes, not of times: the same for two steps that did the same.
  uint64_t signature = 0;
};

// What is to become of a value.
enum class Choice : uint8_t {
  rebuild,  // forgotten; rebuilt once and then held for as long as backward will ask for it
  again,    // forgotten; rebuilt whenever it is asked for, and never held
  keep,
  encode,  // kept encoded, decoded when asked for
};
using Choices = std::vector<Choice>;  // by value

// Whether `keep` means anything for a value: it can be rebuilt, is saved or read, and nothing overwrites it.
std::vector<bool> keepable(const Graph& graph);

// How many of them are held with loss.
int64_t lossy_values(const Choices& choices, const Graph& graph);

// Throws UsageError naming the first thing that does not hold: ids in range, an op reads what was made before it, bytes
// and seconds finite and not negative, events that refer to what exists.
void check(const Graph& graph);

}  // namespace retrace::plan
